// SPDX-License-Identifier: Apache-2.0
import type { Probe } from "@patchbay/api";
import { expect, test } from "vitest";
import { questionOf } from "./question.ts";

const CONTAINER = { name: "c", image: "i", ports: [{ name: "web", containerPort: 8080 }] };
const POD = { ips: ["10.0.0.2"], isOnNode: false };
const NODE = { ips: ["192.0.2.1"], isOnNode: true };

test.each<{ name: string; probe: Probe; place?: typeof POD; want: object }>([
  {
    name: "a program",
    probe: { exec: { command: ["true"] } },
    want: { kind: "exec", command: ["true"] },
  },
  { name: "no program", probe: { exec: {} }, want: { kind: "none" } },
  {
    name: "a port by number",
    probe: { tcpSocket: { port: 80 } },
    want: { kind: "tcp", host: "10.0.0.2", port: 80 },
  },
  { name: "a port by name", probe: { tcpSocket: { port: "web" } }, want: { port: 8080 } },
  { name: "a name that is none", probe: { tcpSocket: { port: "x" } }, want: { kind: "none" } },
  { name: "the last port", probe: { tcpSocket: { port: 65_535 } }, want: { port: 65_535 } },
  { name: "the first port", probe: { tcpSocket: { port: 1 } }, want: { port: 1 } },
  { name: "a port below all", probe: { tcpSocket: { port: 0 } }, want: { kind: "none" } },
  {
    name: "an empty address",
    probe: { tcpSocket: { port: 1, host: "" } },
    want: { kind: "tcp", host: "10.0.0.2", port: 1 },
  },
  {
    name: "a server without a path",
    probe: { httpGet: { port: 1 } },
    want: { kind: "http", isTls: false, host: "10.0.0.2", port: 1, path: "/", headers: [] },
  },
  {
    name: "a path with a slash at its end",
    probe: { httpGet: { port: 1, path: "a/" } },
    want: { path: "/a/" },
  },
  { name: "a number that is none", probe: { tcpSocket: { port: 65_536 } }, want: { kind: "none" } },
  {
    name: "the pod's own address",
    probe: { tcpSocket: { port: 1, host: "10.0.0.2" } },
    want: { kind: "tcp", host: "10.0.0.2" },
  },
  {
    name: "no address but the pod's",
    probe: { tcpSocket: { port: 1, host: "127.0.0.1" } },
    want: { kind: "none", reason: "127.0.0.1 is not an address of the pod, and no other is asked" },
  },
  {
    name: "the node for a pod in its network",
    probe: { tcpSocket: { port: 1, host: "127.0.0.1" } },
    place: NODE,
    want: { kind: "tcp", host: "127.0.0.1" },
  },
  {
    name: "nobody while there is no address",
    probe: { tcpSocket: { port: 1 } },
    place: { ips: [], isOnNode: false },
    want: { reason: "the pod has no address yet" },
  },
  {
    name: "a server",
    probe: {
      httpGet: {
        port: "web",
        path: "healthz?a=b",
        scheme: "HTTPS",
        httpHeaders: [{ name: "x-a", value: "b" }],
      },
    },
    want: {
      kind: "http",
      isTls: true,
      host: "10.0.0.2",
      port: 8080,
      path: "/healthz?a=b",
      headers: [["x-a", "b"]],
    },
  },
  {
    name: "no server elsewhere",
    probe: { httpGet: { port: 1, host: "169.254.169.254" } },
    want: { kind: "none" },
  },
  {
    name: "no second request in a header",
    probe: { httpGet: { port: 1, httpHeaders: [{ name: "a", value: "b\r\nGET /" }] } },
    want: { kind: "none", reason: '"a" cannot be a header' },
  },
  {
    name: "nor in a path",
    probe: { httpGet: { port: 1, path: "/ HTTP/1.1\r\n" } },
    want: { kind: "none" },
  },
  {
    name: "gRPC",
    probe: { grpc: { port: 1 } },
    want: { reason: "gRPC probes are not supported" },
  },
])("$name", ({ probe, place = POD, want }) => {
  expect(questionOf(probe, CONTAINER, place)).toMatchObject(want);
});

test("a name is no port where the container has none", () => {
  const container = { name: "c", image: "i" };
  const probe = { tcpSocket: { port: "web" } };
  expect(questionOf(probe, container, POD)).toMatchObject({ kind: "none" });
});
