// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { isPort, findSettingProblems, type RequestedSettings, type HostFacts } from "./problems.ts";

const ASKED: RequestedSettings = { apiPort: 6443, nodeName: "node-a", bridge: "br1" };
const HOST: HostFacts = { links: ["lo"], routes: ["10.5.0.0/16"], isPortFree: true };

function problems(
  requested: Partial<RequestedSettings>,
  stored: Partial<RequestedSettings> = {},
): string {
  return findSettingProblems({ ...ASKED, ...requested }, stored, HOST).join("; ");
}

const NO_SUBNET = "it must be like 10.88.1.0/24";
const NO_SERVICES = "it must be like 10.97.0.0/16";
const NO_NAME = "it must consist of lower case letters, digits, - and .";

test.each<Partial<RequestedSettings>>([
  {},
  { apiPort: 1 },
  { apiPort: 65_535 },
  { nodeName: "a".repeat(253) },
  { bridge: "a".repeat(15) },
  { podSubnet: "255.255.255.0/24" },
  { podSubnet: "10.88.1.0/24", serviceSubnet: "10.97.0.0/16" },
  { serviceSubnet: "255.255.0.0/16" },
  { apiAddress: "192.0.2.1" },
  { apiAddress: "fd00::1" },
])("accepts %j", (requested) => {
  expect(problems(requested)).toBe("");
});

test.each<{ requested: Partial<RequestedSettings>; want: string }>([
  { requested: { apiPort: 0 }, want: "--api-port 0: it must be from 1 to 65535" },
  { requested: { nodeName: "a".repeat(254) }, want: `--node-name ${"a".repeat(254)}: ${NO_NAME}` },
  {
    requested: { bridge: "a".repeat(16) },
    want: `--bridge ${"a".repeat(16)}: it is longer than 15 characters`,
  },
  { requested: { bridge: "." }, want: "--bridge .: it is not a valid link name" },
  { requested: { bridge: ".." }, want: "--bridge ..: it is not a valid link name" },
  { requested: { podSubnet: "10.256.1.0/24" }, want: `--pod-subnet 10.256.1.0/24: ${NO_SUBNET}` },
  { requested: { podSubnet: "10.88.1.0/16" }, want: `--pod-subnet 10.88.1.0/16: ${NO_SUBNET}` },
  {
    requested: { podSubnet: "10.5.1.0/24" },
    want: "--pod-subnet 10.5.1.0/24: the host has a route to 10.5.0.0/16",
  },
  {
    requested: { serviceSubnet: "10.256.0.0/16" },
    want: `--service-subnet 10.256.0.0/16: ${NO_SERVICES}`,
  },
  {
    requested: { serviceSubnet: "10.97.0.0/24" },
    want: `--service-subnet 10.97.0.0/24: ${NO_SERVICES}`,
  },
  {
    requested: { serviceSubnet: "10.5.0.0/16" },
    want: "--service-subnet 10.5.0.0/16: the host has a route to 10.5.0.0/16",
  },
  {
    requested: { serviceSubnet: "10.88.0.0/16", podSubnet: "10.88.1.0/24" },
    want: "--service-subnet 10.88.0.0/16: the pods have 10.88.1.0/24",
  },
  { requested: { apiAddress: "here" }, want: "--api-address here: it is not an IP address" },
  {
    requested: { apiAddress: "127.0.0.1" },
    want: "--api-address 127.0.0.1: pods cannot reach the API server at that address",
  },
])("$requested is rejected: $want", ({ requested, want }) => {
  expect(problems(requested)).toBe(want);
});

test("does not check settings stored by an earlier start", () => {
  expect(problems({ serviceSubnet: "10.5.0.0/16" }, { serviceSubnet: "10.5.0.0/16" })).toBe("");
});

test.each([
  { port: 0, want: false },
  { port: 1, want: true },
  { port: 65_535, want: true },
  { port: 65_536, want: false },
  { port: 1.5, want: false },
])("$port is a valid port: $want", ({ port, want }) => {
  expect(isPort(port)).toBe(want);
});
