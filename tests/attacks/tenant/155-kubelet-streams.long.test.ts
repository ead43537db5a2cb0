// SPDX-License-Identifier: Apache-2.0
// A flood of attach streams, through the API server and a real containerd.
import type { Duplex } from "node:stream";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { upgrade } from "../../contract/apiserver/upgrade.ts";
import { startStreamNode, type StreamNode } from "../../contract/node-runtime/stream-node.ts";

const STREAMS = 2500;
const AT_ONCE = 50;
/** The share of a namespace. */
const SHARE = 256;
const HEADERS = {
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-protocol": "v4.channel.k8s.io",
};

let node: StreamNode;

beforeAll(async () => {
  node = await startStreamNode();
});
afterAll(() => node.close());

test("attack 155: of 2,500 attach streams of a namespace, as many as its share are open", async () => {
  const { path } = await node.pod("attacked", "while :; do busybox sleep 1; done");
  const sockets: Duplex[] = [];
  let attempts = 0;
  const attach = async (): Promise<number | undefined> => {
    const { api } = node.session;
    // From several addresses, because TLS handshakes of one address have a rate.
    const address = `127.0.1.${String(1 + Math.floor(attempts / AT_ONCE))}`;
    attempts += 1;
    const { answer, socket } = await upgrade(api, `${path}/attach?stdout=true`, HEADERS, address);
    answer.resume();
    if (socket !== undefined) sockets.push(socket.on("error", () => undefined));
    return answer.statusCode;
  };
  const codes: (number | undefined)[] = [];
  for (let count = 0; count < STREAMS; count += AT_ONCE) {
    codes.push(...(await Promise.all(Array.from({ length: AT_ONCE }, attach))));
  }
  expect(codes.filter((code) => code === 101)).toHaveLength(SHARE);
  expect(codes.filter((code) => code === 429)).toHaveLength(STREAMS - SHARE);
  for (const socket of sockets) socket.destroy();
  await eventually(async () => (await attach()) === 101, { withinMs: 30_000 });
  for (const socket of sockets) socket.destroy();
});
