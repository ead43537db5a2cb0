// SPDX-License-Identifier: Apache-2.0
// Paths that virt-api and the API server could interpret differently.
import { once } from "node:events";
import { connect } from "node:tls";
import { STREAM_PROTOCOL } from "@patchbay/core/guest";
import { afterAll, beforeAll, expect, test } from "vitest";
import { identity } from "../../contract/apiserver/harness.ts";
import { VirtApiMachine } from "../virt-api-machine.ts";

const OF_MINE = "/apis/subresources.kubevirt.io/v1/namespaces/mine/virtualmachineinstances";
const OF_OTHERS = "victim/virtualmachineinstances/vm";

let machine: VirtApiMachine;
/** The API server's certificate, which lets it act for any user. */
let frontProxy: { readonly cert: string; readonly key: string };

beforeAll(async () => {
  machine = await VirtApiMachine.start();
  const { certPem, keyPem } = await identity(machine.api.authority, "front-proxy-client", []);
  frontProxy = { cert: certPem, key: keyPem };
}, 120_000);

afterAll(() => machine[Symbol.asyncDispose]());

/** The first line of the response to a stream request with that exact path, sent without normalization. */
async function ask(path: string): Promise<string> {
  const { hostname: host, port } = new URL(machine.url);
  const socket = connect({ host, port: Number(port), ...frontProxy, rejectUnauthorized: false });
  try {
    await once(socket, "secureConnect");
    const head = [
      `GET ${path} HTTP/1.1`,
      "Host: virt-api",
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
      `Sec-WebSocket-Protocol: ${STREAM_PROTOCOL}`,
      "X-Remote-User: mallory",
      "X-Remote-Group: system:authenticated",
    ];
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
    let output = "";
    for await (const chunk of socket) output += String(chunk);
    return output;
  } finally {
    socket.destroy();
  }
}

test("attack 131: an unambiguous path of the tenant's own VM opens that VM", async () => {
  const output = await ask(`${OF_MINE}/vm/console`);
  expect(output).toMatch(/^HTTP\/1\.1 404 /);
  expect(output).toContain(`virtualmachineinstances.kubevirt.io \\"vm\\" not found`);
});

test.each([
  `${OF_MINE}/vm/portforward/../../../../${OF_OTHERS}/console`,
  `${OF_MINE}/vm/portforward/%2e%2e/%2e%2e/%2E%2E/.%2e/${OF_OTHERS}/vnc`,
  `${OF_MINE}/vm/console/../../../../${OF_OTHERS}/capture?interface=a`,
  `${OF_MINE}/../../${OF_OTHERS}/portforward/22`,
])("attack 131: %s opens nothing", async (path) => {
  const output = await ask(path);
  expect(output).toMatch(/^HTTP\/1\.1 404 /);
  expect(output).not.toContain("victim");
  expect(output).not.toContain("virtualmachineinstances.kubevirt.io");
});
