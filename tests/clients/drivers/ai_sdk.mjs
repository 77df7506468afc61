// The client of ai-sdk.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport } from "@ai-sdk/mcp/mcp-stdio";
import { answer, given, run } from "./answers.mjs";

const { transport, command, url } = given;
const [program, ...args] = command;
const transports = {
  stdio: () => new Experimental_StdioMCPTransport({ command: program, args, env: process.env, stderr: "ignore" }),
  http: () => ({ type: "http", url }),
  sse: () => ({ type: "sse", url }),
};

await run(async () => {
  const client = await createMCPClient({ transport: transports[transport]() });
  const tools = await client.tools();
  for (const uri of given.uris) {
    await answer(uri, {
      resource: async () => (await client.readResource({ uri })).contents[0].text,
      tool: () => tools.get_resource.execute({ uri }, { messages: [], toolCallId: "1" }),
    });
  }
  await client.close();
});
