import solid from "vite-plugin-solid";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [solid()],
  base: "/",
  build: {
    outDir: process.env.INNKEEPER_WEB_DIST ?? "../crates/innkeeper-web/dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
  test: { include: ["test/**/*.test.ts"], environment: "node" },
});
