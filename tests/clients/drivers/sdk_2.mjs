// The client of the TypeScript SDK 2.x.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { answer, given, run } from "./answers.mjs";

const { transport, command, url } = given;
const [program, ...args] = command;
const transports = {
  stdio: () => new StdioClientTransport({ command: program, args, env: process.env, stderr: "ignore" }),
  http: () => new StreamableHTTPClientTransport(new URL(url)),
  sse: () => new SSEClientTransport(new URL(url)),
};

await run(async () => {
  const client = new Client({ name: "try", version: "1" });
  await client.connect(transports[transport](), { timeout: 120_000 });
  await client.listTools();
  for (const uri of given.uris) {
    await answer(uri, {
      resource: async () => (await client.readResource({ uri })).contents[0].text,
      tool: () => client.callTool({ name: "get_resource", arguments: { uri } }),
    });
  }
  await client.close();
});
