// The official host side of MCP Apps. Its schemas check each message of the page; what they refuse is in `refused`.
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

export async function connect() {
  const bridge = (window.bridge = new AppBridge(null, { name: "judge", version: "1" }, setup.offers, { hostContext: context() }));
  window.refused = [];
  bridge.onerror = (error) => refused.push(String(error));
  bridge.oncalltool = ask("tools/call");
  bridge.onreadresource = ask("resources/read");
  bridge.onmessage = bridge.onopenlink = bridge.ondownloadfile = bridge.onupdatemodelcontext = async () => ({});
  bridge.onrequestdisplaymode = async ({ mode }) => ({ mode });
  bridge.onsizechange = ({ height }) => { frame.style.height = `${height + 2}px`; };
  bridge.oninitialized = async () => {
    log.push({ from: "judge", app: bridge.getAppVersion(), capabilities: bridge.getAppCapabilities() });
    await bridge.sendToolInput({ arguments: setup.args });
    if (setup.result) await bridge.sendToolResult(setup.result);
  };
  const transport = new PostMessageTransport(frame.contentWindow, frame.contentWindow), send = transport.send.bind(transport);
  transport.send = (message, options) => { // an answer that says that a request of the page was wrong
    if (message.error) refused.push(message.error.message);
    log.push({ from: "host", ...message });
    return send(message, options);
  };
  await bridge.connect(transport);
}
