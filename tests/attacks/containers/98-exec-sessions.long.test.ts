// SPDX-License-Identifier: Apache-2.0
// Leftovers of abandoned exec sessions, through a real containerd and the API server.
import type { Duplex } from "node:stream";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { upgrade } from "../../contract/apiserver/upgrade.ts";
import { startStreamNode, type StreamNode } from "../../contract/node-runtime/stream-node.ts";

const SESSIONS = 200;
/** The limit per container. */
const TAKEN = 32;
const TIMEOUT = { withinMs: 30_000 };
const SLEEP = "command=busybox&command=sleep&command=1000&stdin=true&stdout=true&tty=true";
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

test("attack 98: the programs of 200 abandoned exec sessions are killed", async () => {
  const { containerId, path } = await node.pod("attacked", "while :; do busybox sleep 1; done");
  const sockets: Duplex[] = [];
  const codes = await Promise.all(
    Array.from({ length: SESSIONS }, async () => {
      const { answer, socket } = await upgrade(node.session.api, `${path}/exec?${SLEEP}`, HEADERS);
      if (socket !== undefined) sockets.push(socket);
      return answer.statusCode;
    }),
  );
  expect(codes.filter((code) => code === 101)).toHaveLength(TAKEN);
  const running = () => node.programs.list(containerId);
  await eventually(async () => (await running()).length === TAKEN, TIMEOUT);
  for (const socket of sockets) socket.destroy();
  await eventually(async () => (await running()).length === 0, TIMEOUT);
  // The container is usable again.
  const { out } = await node.session.kubectl("exec attacked -- sh -c", "echo well");
  expect(out).toBe("well\n");
});
