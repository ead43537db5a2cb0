// SPDX-License-Identifier: Apache-2.0
// A claim being filled during a power failure: its disk is complete afterwards, and no pod uses it before.
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { FILL_PHASE_ANNOTATION } from "@patchbay/core/vm";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RuntimeMachine, shellPod } from "../machine.ts";
import { deleteDataVolumes, diskOf, fill, isFilled, readerOf, serveStorage } from "./fill.ts";

const IMAGES_MS = 180_000;
const TEST_TIMEOUT_MS = 180_000;
const CLAIM = "/api/v1/namespaces/default/persistentvolumeclaims/data";
const CUT_OFF_BYTES = 2 ** 20;
let machine: RuntimeMachine;
let server: Server;
let url: string;
let requests = 0;

function portOf(listening: Server): number {
  return (listening.address() as AddressInfo).port;
}

beforeAll(async () => {
  machine = await RuntimeMachine.start();
  await serveStorage(machine);
  // The first pod creates the bridge whose address the server uses.
  await machine.create(shellPod("first", "true"));
  await machine.inPhase("first", "Succeeded");
  const disk = diskOf("whole");
  server = createServer((_request, response) => {
    requests += 1;
    response.setHeader("content-length", disk.length);
    // The first download never ends.
    if (requests === 1) response.write(disk.subarray(0, CUT_OFF_BYTES));
    else response.end(disk);
  });
  await once(server.listen(0, machine.gateway), "listening");
  url = `http://${machine.gateway}:${String(portOf(server))}/disk.img`;
}, IMAGES_MS);
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await deleteDataVolumes(machine);
  await machine.clear();
  await machine.close();
}, TEST_TIMEOUT_MS);

test(
  "a download interrupted by a power failure leaves no disk in use and is repeated",
  async () => {
    await fill(machine, "data", { http: { url } });
    await eventually(() => requests > 0, { withinMs: 60_000 });
    await machine.stopRuntime("SIGKILL");
    await machine.reboot();
    const { annotations } = (await machine.api.get(CLAIM)).body.metadata;
    expect(annotations).not.toMatchObject({ [FILL_PHASE_ANNOTATION]: "Succeeded" });
    await machine.startRuntime();
    await isFilled(machine, "data");
    await machine.create(readerOf("data", "whole"));
    await machine.inPhase("reader-of-data", "Succeeded");
  },
  TEST_TIMEOUT_MS,
);
