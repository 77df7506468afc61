// node typescript_server.mjs FILE: the data of the file on a server of the TypeScript SDK, over HTTP on a free port.
// The file is a JSON object: the data of each URI. The packages are installed beside this file.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { z } from 'zod'

const data = JSON.parse(readFileSync(process.argv[2], 'utf-8'))
const mimeType = 'application/json'

function makeServer() {
  const server = new McpServer({ name: 'typescript', version: '1' })
  for (const uri of Object.keys(data)) {
    server.registerResource(uri, uri, { mimeType }, async () => ({
      contents: [{ uri, mimeType, text: JSON.stringify(data[uri]) }],
    }))
  }
  server.registerTool('get_resource', { description: 'Read', inputSchema: z.object({ uri: z.string() }) }, async ({ uri }) => ({
    content: [{ type: 'text', text: JSON.stringify(data[uri]) }],
    structuredContent: data[uri],
  }))
  return server
}

const handle = toNodeHandler(createMcpHandler(makeServer, { responseMode: 'json' }))
const server = createServer(handle).listen(0, '127.0.0.1', () => {
  console.error(`running on http://127.0.0.1:${server.address().port}`)
})
