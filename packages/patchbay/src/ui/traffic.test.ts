// SPDX-License-Identifier: Apache-2.0
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { parseTraffic, readTraffic } from "./traffic.ts";

const LABELS = 'node="n",namespace="ns",name="a",interface="blue"';
const TEXT = [
  "# TYPE kubevirt_vmi_network_receive_bytes_total counter",
  `kubevirt_vmi_network_receive_bytes_total{${LABELS}} 1024`,
  `kubevirt_vmi_network_transmit_bytes_total{${LABELS}} 1.5e+3`,
  `kubevirt_vmi_network_receive_packets_total{${LABELS}} 7`,
  `kubevirt_vmi_network_receive_bytes_total{${LABELS}} hostile`,
].join("\n");

test("counters stand by VM and interface", () => {
  expect(parseTraffic(TEXT)).toEqual(new Map([["ns/a/blue", [1024, 1500]]]));
  expect(parseTraffic("")).toEqual(new Map());
});

test("an address that does not answer counts nothing", async () => {
  const server = createServer((_request, response) => response.end(TEXT));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const url = `http://127.0.0.1:${String(port)}/metrics`;
  expect(await readTraffic([url, "http://127.0.0.1:1/", "no address"])).toEqual({
    "ns/a/blue": [1024, 1500],
  });
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
