// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { isPort, findSettingProblems, type RequestedSettings, type HostFacts } from "./problems.ts";

const ASKED: RequestedSettings = { apiPort: 6443, nodeName: "node-a", bridge: "br1" };
const HOST: HostFacts = {
  machines: [],
  links: ["lo"],
  routes: ["10.5.0.0/16"],
  isPortFree: true,
};

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

const OTHER_SETTINGS = {
  apiPort: 6443,
  bridge: "br9",
  podSubnet: "10.88.111.0/24",
  serviceSubnet: "10.96.0.0/16",
};

test.each<{
  requested: Partial<RequestedSettings>;
  stored?: boolean;
  ifDown: string;
  ifUp: string;
}>([
  { requested: {}, ifDown: "", ifUp: "--api-port 6443" },
  { requested: { bridge: "br9" }, ifDown: "--bridge br9", ifUp: "--api-port 6443,--bridge br9" },
  {
    requested: { apiPort: 1, podSubnet: "10.88.111.0/24" },
    ifDown: "--pod-subnet 10.88.111.0/24",
    ifUp: "--pod-subnet 10.88.111.0/24",
  },
  {
    requested: { apiPort: 1, serviceSubnet: "10.88.0.0/16" },
    ifDown: "--service-subnet 10.88.0.0/16",
    ifUp: "--service-subnet 10.88.0.0/16",
  },
  { requested: { apiPort: 1, bridge: "br9" }, stored: true, ifDown: "", ifUp: "--bridge br9" },
])(
  "of $requested, rejects what another machine has: $ifDown; if it is active: $ifUp",
  ({ requested, stored = false, ifDown, ifUp }) => {
    const rejected = (isActive: boolean): readonly string[] => {
      const machines = [{ dataDir: "/other", isActive, settings: OTHER_SETTINGS }];
      const all = { ...ASKED, ...requested };
      return findSettingProblems(all, stored ? all : {}, { ...HOST, machines });
    };
    const flagsOf = (causes: readonly string[]): string =>
      causes.map((cause) => cause.replace(/: .*/, "")).join(",");
    expect([flagsOf(rejected(false)), flagsOf(rejected(true))]).toEqual([ifDown, ifUp]);
    for (const cause of rejected(true)) expect(cause).toContain("the machine in /other has");
    for (const cause of rejected(false)) expect(cause).toContain("/other, which is down, has");
  },
);

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
