// SPDX-License-Identifier: Apache-2.0
// Packet captures of guests.
import { once } from "node:events";
import type { Duplex } from "node:stream";
import { eventually } from "@patchbay/support";
import { createFakePacketCaptures, type FakePacketCaptures } from "@patchbay/podnet/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LoopNode } from "../testing/loop-node.ts";
import { aScheduledVmi } from "../testing/scene.ts";
import type { OpenCapture } from "./guest-captures.ts";

const KEY = { namespace: "default", name: "vm1" };
const SOON = { withinMs: 5_000 };
const ORDER = { interface: "one", filter: "", seconds: 5, bytes: 10_000 };
const REQUEST = { stream: "capture", options: ORDER, user: "jane" } as const;
/** Header lengths of the file and of each packet. */
const [FILE_HEADER, PACKET_HEADER] = [24, 16];

let node: LoopNode;
let captures: FakePacketCaptures;
let open: OpenCapture;
let opened: Duplex[];

beforeEach(async () => {
  opened = [];
  node = new LoopNode();
  await node.put(aScheduledVmi(["one"]));
  node.start();
  await eventually(() => node.isRunning, SOON);
  captures = createFakePacketCaptures(["tap7692c3ad354"]);
  const capture = node.createCapture(captures);
  open = async (key, request) => {
    const stream = await capture(key, request);
    opened.push(stream);
    return stream;
  };
});

afterEach(async () => {
  for (const stream of opened) stream.destroy();
  await node.stop();
});

/** Reads to the end and returns the number of bytes. */
async function lengthOf(stream: Duplex): Promise<number> {
  let length = 0;
  stream.on("data", (chunk: Buffer) => (length += chunk.length));
  await once(stream, "end");
  return length;
}

async function link(): Promise<string> {
  return (await eventually(() => captures.running[0], SOON)).link;
}

test("shows the tap's packets until the time is over, and records who captures", async () => {
  const stream = await open(KEY, REQUEST);
  const length = lengthOf(stream);
  await captures.pass(await link(), new Uint8Array(60));
  await node.clock.advance(5_000);
  expect(await length).toBe(FILE_HEADER + PACKET_HEADER + 60);
  expect(captures.running).toEqual([]);
  expect(node.events).toContain(
    "PacketsCaptured: jane captures all packets of interface one, for at most 5 s",
  );
});

test("ends before the packet that exceeds the limit", async () => {
  const options = { ...ORDER, bytes: FILE_HEADER + PACKET_HEADER + 100 };
  const stream = await open(KEY, { ...REQUEST, options });
  const length = lengthOf(stream);
  await captures.pass(await link(), new Uint8Array(60));
  await captures.pass(await link(), new Uint8Array(60));
  expect(await length).toBe(FILE_HEADER + PACKET_HEADER + 60);
});

test("ends with its reader, and drops what is written to it", async () => {
  const stream = await open(KEY, REQUEST);
  stream.write("hello");
  await link();
  stream.destroy();
  await eventually(() => captures.running.length === 0, SOON);
});

test("allows one capture of an interface at a time", async () => {
  const first = await open(KEY, REQUEST);
  await expect(open(KEY, REQUEST)).rejects.toMatchObject({ code: "GUEST_STREAM_IN_USE" });
  first.destroy();
  await once(first, "close");
  await open(KEY, REQUEST);
});

test("ends the stream when the capture dies", async () => {
  const length = lengthOf(await open(KEY, REQUEST));
  await link();
  captures.kill();
  expect(await length).toBe(FILE_HEADER);
});

test.each([
  { iface: "three", reason: "the VM has no such interface" },
  { iface: "two", reason: /^it has no tap/ },
])("rejects a capture of interface $iface", async ({ iface, reason }) => {
  await node.put(aScheduledVmi(["one", "two"]));
  const options = { ...ORDER, interface: iface };
  await expect(open(KEY, { ...REQUEST, options })).rejects.toMatchObject({
    code: "CAPTURE_NOT_POSSIBLE",
    details: { reason: expect.stringMatching(reason) as string },
  });
});

test("leaves nothing behind after an invalid filter", async () => {
  const options = { ...ORDER, filter: "(" };
  const failing = open(KEY, { ...REQUEST, options });
  await expect(failing).rejects.toMatchObject({ code: "CAPTURE_FILTER_INVALID" });
  await open(KEY, REQUEST);
});

test("does not find a guest of another node", async () => {
  const of = { namespace: "default", name: "vm2" };
  await expect(open(of, REQUEST)).rejects.toMatchObject({ code: "KUBE_NOT_FOUND" });
});
