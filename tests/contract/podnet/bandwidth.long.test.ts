// SPDX-License-Identifier: Apache-2.0
// Limits of a guest's traffic on the kernel: measured rates, the send guard, and what removal leaves behind.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { BridgeWiring, RateLimit } from "@patchbay/core/nics";
import type { NetnsHandle } from "@patchbay/core/interfaces";
import { createPodNetwork } from "@patchbay/podnet";
import { run } from "@patchbay/support";
import { dyingAfter } from "./dying-agent.ts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { addGuest, addHost, guestWiring, makeNetwork, Namespaces, ping, PREFIX } from "./links.ts";

const POD = `${PREFIX}-pod1`;
const LIMITER = "lim1";
/** Share of a TCP frame that is payload, with an MTU of 1400 and TCP timestamps. */
const PAYLOAD_SHARE = (1400 - 52) / (1400 + 14);

/**
 * A limit in bytes per second, low enough that the processor makes no difference. Its bucket holds 200 ms, so that timers
 * that a busy machine delays lose no tokens.
 */
function limitOf(bytesPerSecond: number): RateLimit {
  const burstBytes = Math.max(1422, bytesPerSecond / 5);
  return {
    average: { bytesPerSecond, burstBytes },
    queueBytes: burstBytes + bytesPerSecond / 10,
  };
}

/** Receives for two seconds after the first burst, and prints the bytes per second. */
const RECEIVE = `
const server = require("node:net").createServer((socket) => {
  let [bytes, start] = [0, 0];
  socket.on("data", (data) => {
    const now = performance.now();
    if (start === 0) start = now + 500;
    if (now < start) return;
    bytes += data.length;
    if (now < start + 2000) return;
    console.log((bytes * 1000) / (now - start));
    process.exit();
  });
});
server.listen(Number(process.argv[1]), "0.0.0.0");
setTimeout(() => process.exit(1), 20000);
`;
/** Sends as fast as the network accepts, until the receiver closes the connection. */
const SEND = `
const [host, port] = process.argv.slice(1);
const connect = () => {
  const socket = require("node:net").connect({ host, port: Number(port) });
  const send = () => { while (socket.write(Buffer.alloc(16384))); };
  socket.on("connect", send).on("drain", send);
  socket.on("error", (error) => error.code === "ECONNREFUSED" ? setTimeout(connect, 50) : process.exit());
  socket.on("close", (isFailed) => isFailed || process.exit());
};
connect();
setTimeout(() => process.exit(1), 20000);
`;

const execute = promisify(execFile);

function runNode(guest: string, program: string, ...args: readonly string[]) {
  return execute("ip", ["netns", "exec", guest, process.execPath, "-e", program, ...args]);
}

interface Transfer {
  readonly from: string;
  readonly to: string;
  readonly address: string;
  readonly port: number;
}

/** Returns the rate of a transfer, in bytes of frames per second. */
async function measure({ from, to, address, port }: Transfer): Promise<number> {
  const [{ stdout }] = await Promise.all([
    runNode(to, RECEIVE, String(port)),
    runNode(from, SEND, address, String(port)).catch(() => undefined),
  ]);
  return Number(stdout) / PAYLOAD_SHARE;
}

/** Measures up to five times, because other programs may delay the receiver. Without a limit no attempt succeeds. */
async function expectRate(transfer: Transfer, wanted: number): Promise<void> {
  const rates: number[] = [];
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const rate = await measure({ ...transfer, port: transfer.port + attempt });
    rates.push(Math.round(rate));
    if (Math.abs(rate - wanted) <= wanted / 10) return;
  }
  expect(rates, `rates in bytes per second instead of ${String(wanted)}`).toEqual([]);
}

const namespaces = new Namespaces();
const network = makeNetwork();
let guest: string;
let peer: string;
let netns: NetnsHandle;
beforeEach(async () => {
  const host = addHost(namespaces);
  guest = await addGuest({ namespaces, host }, 1, "veth");
  peer = await addGuest({ namespaces, host }, 2, "veth");
  netns = namespaces.open(POD);
});
afterEach(() => {
  namespaces.close();
});

async function limit(limits: NonNullable<BridgeWiring["limits"]>): Promise<BridgeWiring> {
  const wiring = { ...guestWiring(1), limits };
  await network.wireTap(netns, wiring);
  expect((await network.observe(netns)).isWired(wiring)).toBe(true);
  return wiring;
}

function expectRates(inbound: number, outbound: number): Promise<unknown> {
  return Promise.all([
    expectRate({ from: peer, to: guest, address: "10.9.0.1", port: 5000 }, inbound),
    expectRate({ from: guest, to: peer, address: "10.9.0.2", port: 6000 }, outbound),
  ]);
}

test("rates are within 10 % of the limits in both directions, also after a change", async () => {
  await limit({ inbound: limitOf(400_000), outbound: limitOf(800_000) });
  await expectRates(400_000, 800_000);
  await limit({ inbound: limitOf(1_200_000), outbound: limitOf(600_000) });
  await expectRates(1_200_000, 600_000);
}, 120_000);

test("full frames pass the smallest burst, also with a peak", async () => {
  const average = { bytesPerSecond: 100_000, burstBytes: 1422 };
  const peak = { bytesPerSecond: 200_000, burstBytes: 1422 };
  const smallest = { average, peak, queueBytes: 20_000 };
  await limit({ inbound: smallest, outbound: smallest });
  expect(ping(guest, "-s", "1372", "10.9.0.2")).toContain(" 0% packet loss");
});

test("rates above 32 bits of bytes per second are recognized", async () => {
  const fast = (bytesPerSecond: number) => ({ bytesPerSecond, burstBytes: 0xffff_ffff });
  const wide = { average: fast(10e9), peak: fast(20e9), queueBytes: 0xffff_ffff };
  await limit({ inbound: wide, outbound: wide });
  const other = { ...wide, average: fast(11e9) };
  const view = await network.observe(netns);
  expect(view.isWired({ ...guestWiring(1), limits: { inbound: other, outbound: wide } })).toBe(
    false,
  );
});

test("the send guard drops frames before they reach the limiter", async () => {
  const { mac } = guestWiring(1);
  const guard = { macs: [mac], allowsServers: false };
  const wiring = { ...guestWiring(1), guard, limits: { outbound: limitOf(1_000_000) } };
  await network.wireTap(netns, wiring);
  expect((await network.observe(netns)).isWired(wiring)).toBe(true);
  expect(ping(guest, "10.9.0.2")).toContain(" 0% packet loss");
  run("ip", "-n", guest, "link", "set", "eth0", "address", "02:00:00:00:5e:07");
  expect(() => ping(guest, "10.9.0.2")).toThrow("Command failed");
});

test("removal leaves no limiter, table or queueing discipline, and a deleted limiter is recreated", async () => {
  const wiring = await limit({ inbound: limitOf(1_000_000), outbound: limitOf(1_000_000) });
  run("ip", "-n", POD, "link", "del", LIMITER);
  expect((await network.observe(netns)).isWired(wiring)).toBe(false);
  await network.wireTap(netns, wiring);
  expect((await network.observe(netns)).isWired(wiring)).toBe(true);
  expect(ping(guest, "10.9.0.2")).toContain(" 0% packet loss");

  await network.wireTap(netns, guestWiring(1));
  expect((await network.observe(netns)).isWired(guestWiring(1))).toBe(true);
  const tables = (): string => run("ip", "netns", "exec", POD, "nft", "list", "tables");
  expect(run("ip", "-n", POD, "-d", "link")).not.toMatch(/lim1|tbf/);
  expect(tables()).not.toContain(LIMITER);
  expect(ping(guest, "10.9.0.2")).toContain(" 0% packet loss");

  await network.wireTap(netns, wiring);
  await network.unwireTap(netns, wiring);
  const links = await network.listLinks(netns);
  expect(links.map(({ name }) => name)).toEqual(["lo", "pod1"]);
  expect(tables()).not.toContain(LIMITER);
});

test("an agent's death after any command leaves nothing that the next agent does not complete or remove", async () => {
  const limits = { inbound: limitOf(1_000_000), outbound: limitOf(1_000_000) };
  const wiring = { ...guestWiring(1), limits };
  let commands = 0;
  const repairs: boolean[] = [];
  for (let isCut = true; isCut; commands += 1) {
    const dying = createPodNetwork(dyingAfter(commands));
    isCut = await dying.wireTap(netns, wiring).then(
      () => false,
      () => true,
    );
    expect((await network.observe(netns)).isWired(wiring)).toBe(!isCut);
    // Half of the deaths are followed by a repair, the others by the removal at once.
    if (commands % 2 === 0) await network.wireTap(netns, wiring);
    repairs.push((await network.observe(netns)).isWired(wiring));
    await network.unwireTap(netns, wiring);
    const links = await network.listLinks(netns);
    expect(links.map(({ name }) => name)).toEqual(["lo", "pod1"]);
    expect(run("ip", "netns", "exec", POD, "nft", "list", "tables")).not.toContain("patchbay");
  }
  expect(commands).toBeGreaterThan(12);
  expect(repairs.filter((_, index) => index % 2 === 0)).not.toContain(false);
}, 120_000);
