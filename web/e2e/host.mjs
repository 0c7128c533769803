// The real host and a real browser for the scenarios.

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const CHROMIUM = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The program under test. */
export const PROGRAM = process.env.INNKEEPER ?? new URL("../../target/debug/innkeeper", import.meta.url).pathname;

/** A data directory with a host that can be killed and started again. */
export class TestHost {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "innkeeper-web-"));
    this.data = join(this.folder, "data");
    this.home = join(this.folder, "home");
    this.port = 0;
    this.project = join(this.home, "project");
    mkdirSync(this.project, { recursive: true });
    writeFileSync(join(this.project, "guests.txt"), "Ada\nGrace\n");
    const git = (...args) => execFileSync("git", ["-C", this.project, ...args], { stdio: "ignore" });
    git("init", "--initial-branch=main");
    git("config", "user.name", "Guest");
    git("config", "user.email", "guest@example.org");
    git("add", ".");
    git("commit", "-m", "Begin");
  }

  async start() {
    const args = ["--listen", `127.0.0.1:${this.port}`, "--data", this.data, "--json"];
    this.process = spawn(PROGRAM, args, { env: this.environment(), stdio: ["ignore", "pipe", "pipe"] });
    this.log = "";
    this.process.stderr.on("data", (chunk) => (this.log += chunk));
    const line = await new Promise((resolve, reject) => {
      let text = "";
      this.process.stdout.on("data", (chunk) => {
        text += chunk;
        if (text.includes("\n")) resolve(text.split("\n")[0]);
      });
      this.process.on("exit", (code) => reject(new Error(`the host ended with ${code}:\n${this.log}`)));
    });
    const { url } = JSON.parse(line);
    this.url = url.replace("ws", "http");
    this.port = Number(new URL(this.url).port);
    return this;
  }

  environment() {
    return { PATH: process.env.PATH, HOME: this.home, XDG_CONFIG_HOME: join(this.home, ".config") };
  }

  /** Runs a command of the program on this data directory. */
  run(...args) {
    return execFileSync(PROGRAM, [...args, "--data", this.data], { env: this.environment(), encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  /** Returns a fresh link to the app. */
  link() {
    return this.run("open", "--no-browser").trim();
  }

  async kill(signal = "SIGKILL") {
    // The listener of the start would report this end as a failed start.
    this.process.removeAllListeners("exit");
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill(signal);
    await ended;
  }

  async stop() {
    if (this.process?.exitCode === null) {
      const ended = new Promise((resolve) => this.process.once("exit", resolve));
      this.process.kill("SIGTERM");
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export async function launch(flags = []) {
  return chromium.launch({ executablePath: CHROMIUM, headless: true, args: [...FLAGS, ...flags] });
}

/** Answers requests for the page with the files of a build. The page keeps the host's headers, and so its policy. */
export async function serveBuild(context, url, folder) {
  const types = { js: "text/javascript", css: "text/css", svg: "image/svg+xml" };
  await context.route(`${url}/`, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: readFileSync(join(folder, "index.html"), "utf8") });
  });
  await context.route(`${url}/assets/**`, (route) => {
    const path = new URL(route.request().url()).pathname;
    return route.fulfill({ path: join(folder, path), contentType: types[path.split(".").at(-1)] });
  });
}
