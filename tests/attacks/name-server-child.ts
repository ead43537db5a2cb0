// SPDX-License-Identifier: Apache-2.0
// Process of the name server under attack, with Service `web` in namespace `blue`. Argument: its address.
import { createClock } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { answerQuery } from "../../packages/standalone/service-net/src/dns/answer.ts";
import { createForwarder } from "../../packages/standalone/service-net/src/dns/forwarder.ts";
import { serveNames } from "../../packages/standalone/service-net/src/dns/serve.ts";
import { aService, RANGES } from "../../packages/standalone/service-net/src/testing/objects.ts";

const OBSERVATION_MS = 2;

const address = process.argv[2] ?? "";
const service = aService();
const forwardQuery = createForwarder({
  files: { readText: () => Promise.resolve("") },
  clock: createClock(),
  randomId: () => 1,
  ownAddress: address,
});
const deps = {
  zone: {
    domain: "cluster.local",
    ranges: RANGES,
    findService: (_namespace: string, name: string) => (name === "web" ? service : undefined),
    slicesOf: () => [],
    hasNamespace: () => true,
  },
  forwardQuery,
  nextRotation: () => 0,
  countReply: () => undefined,
};
const port = await serveNames(
  {
    address,
    port: 0,
    clock: createClock(),
    log: createSilentLogger(),
    answer: (bytes, dnsClient) => answerQuery(bytes, dnsClient, deps),
  },
  new AbortController().signal,
);

// Uses processor time, because other processes of the machine must not count.
let before = process.threadCpuUsage();
let longestMs = 0;
setInterval(() => {
  const now = process.threadCpuUsage();
  longestMs = Math.max(longestMs, (now.user + now.system - before.user - before.system) / 1000);
  before = now;
}, OBSERVATION_MS);
process.on("message", () => {
  process.send?.(longestMs);
  longestMs = 0;
});
process.send?.(port);
