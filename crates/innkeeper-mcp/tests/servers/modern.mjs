// A server of the revision 2026-07-28, on the official SDK: over pipes, or over HTTP where PORT is set.
import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { McpServer, acceptedContent, createMcpHandler, inputRequired } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

const text = (text) => ({ content: [{ type: "text", text }] });

function modern() {
  const server = new McpServer({ name: "modern", version: "1.0.0" });
  // It has a view.
  const view = "ui://modern/sum.html";
  const html = { uri: view, mimeType: "text/html;profile=mcp-app", text: "<p>3</p>" };
  server.registerResource("sum", view, { mimeType: html.mimeType }, () => ({ contents: [html] }));
  const sum = { inputSchema: z.object({ a: z.number(), b: z.number() }), _meta: { ui: { resourceUri: view } } };
  server.registerTool("add", sum, ({ a, b }) => text(String(a + b)));
  // Its argument is sent as a header as well.
  const region = z.string().meta({ "x-mcp-header": "Region" });
  server.registerTool("where", { inputSchema: z.object({ region }) }, ({ region }) => text(region));
  // Asks who is there before it answers.
  server.registerTool("greet", { inputSchema: z.object({}) }, (_, context) => {
    const answer = acceptedContent(context.mcpReq.inputResponses, "who");
    if (answer) return text(`Hello, ${answer.name}!`);
    const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    return inputRequired({ inputRequests: { who: inputRequired.elicit({ message: "Who is there?", requestedSchema }) } });
  });
  // Changes its own list of tools.
  server.registerTool("grow", { inputSchema: z.object({}) }, () => {
    server.registerTool("grown", { inputSchema: z.object({}) }, () => ({ content: [] }));
    return text("grown");
  });
  return server;
}

if (process.env.PORT) {
  const handle = toNodeHandler(createMcpHandler(modern));
  createServer((request, response) => {
    if (process.env.SHOW) console.error(JSON.stringify(request.headers));
    handle(request, response);
  }).listen(Number(process.env.PORT), "127.0.0.1");
} else {
  serveStdio(modern);
}
