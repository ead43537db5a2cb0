// SPDX-License-Identifier: Apache-2.0
// Which settings cannot be, and why? All of them at once, before anything is made; pure.
import { isIP } from "node:net";
import { dataplaneGroupProblem } from "@patchbay/core";
import { overlaps } from "./subnet.ts";

/** Settings by the flags that ask for them; what is absent gets a value that is free. */
export interface AskedSettings {
  readonly apiPort: number;
  readonly nodeName: string;
  readonly bridge: string;
  readonly podSubnet?: string;
  readonly serviceSubnet?: string;
  readonly apiAddress?: string;
  readonly dataplaneGroup?: number;
}

/** What of the host is in the way. */
export interface HostFacts {
  /** Names of all links. */
  readonly links: readonly string[];
  /** Networks that the host has routes to, in CIDR form. */
  readonly routes: readonly string[];
  /** Whether nobody listens at the API port. */
  readonly isPortFree: boolean;
}

const PORT_MAX = 65_535;
/** Source: linux/if.h IFNAMSIZ, with the zero at its end. */
const LINK_NAME_MAX_BYTES = 15;
const LINK_NAME = /^[^/\s:]+$/;
const SUBNET = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.0\/24$/;
const SERVICE_SUBNET = /^(\d{1,3})\.(\d{1,3})\.0\.0\/16$/;
/** Source: Kubernetes, DNS-1123 subdomain. */
const NODE_NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const NODE_NAME_MAX = 253;

/** Whether a server can be asked to listen at it. */
export function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= PORT_MAX;
}

function portProblem({ apiPort }: AskedSettings, { isPortFree }: HostFacts): string | undefined {
  if (!isPort(apiPort)) return "it must be from 1 to 65535";
  return isPortFree ? undefined : "another program listens there";
}

/** Everybody's and the loopback's: pods cannot find the API server by them. */
const NO_PLACE = /^(0\.0\.0\.0|127\.\d+\.\d+\.\d+|::|::1)$/;

function addressProblem({ apiAddress }: AskedSettings): string | undefined {
  if (apiAddress === undefined) return undefined;
  if (isIP(apiAddress) === 0) return "it is not an IP address";
  return NO_PLACE.test(apiAddress) ? "pods cannot reach the API server at that address" : undefined;
}

function nodeNameProblem({ nodeName }: AskedSettings): string | undefined {
  if (NODE_NAME.test(nodeName) && nodeName.length <= NODE_NAME_MAX) return undefined;
  return "it must consist of lower case letters, digits, - and .";
}

function bridgeProblem({ bridge }: AskedSettings, { links }: HostFacts): string | undefined {
  if (new TextEncoder().encode(bridge).length > LINK_NAME_MAX_BYTES)
    return `it is longer than ${String(LINK_NAME_MAX_BYTES)} characters`;
  if (!LINK_NAME.test(bridge) || bridge === "." || bridge === "..")
    return "it is not a valid link name";
  return links.includes(bridge) ? "the host already has a link of that name" : undefined;
}

function subnetProblem({ podSubnet }: AskedSettings, { routes }: HostFacts): string | undefined {
  if (podSubnet === undefined) return undefined;
  const bytes = SUBNET.exec(podSubnet)?.slice(1).map(Number);
  if (bytes === undefined || bytes.some((byte) => byte > 255))
    return "it must be like 10.88.1.0/24";
  const taken = routes.find((route) => overlaps(podSubnet, route));
  return taken === undefined ? undefined : `the host has a route to ${taken}`;
}

function serviceSubnetProblem(
  { serviceSubnet, podSubnet }: AskedSettings,
  { routes }: HostFacts,
): string | undefined {
  if (serviceSubnet === undefined) return undefined;
  const bytes = SERVICE_SUBNET.exec(serviceSubnet)?.slice(1).map(Number);
  if (bytes === undefined || bytes.some((byte) => byte > 255))
    return "it must be like 10.97.0.0/16";
  if (podSubnet !== undefined && overlaps(serviceSubnet, podSubnet))
    return `the pods have ${podSubnet}`;
  const taken = routes.find((route) => overlaps(serviceSubnet, route));
  return taken === undefined ? undefined : `the host has a route to ${taken}`;
}

function groupProblem({ dataplaneGroup }: AskedSettings): string | undefined {
  return dataplaneGroup === undefined ? undefined : dataplaneGroupProblem(dataplaneGroup);
}

const RULES: readonly (readonly [
  flag: string,
  setting: keyof AskedSettings,
  problem: (asked: AskedSettings, host: HostFacts) => string | undefined,
])[] = [
  ["--api-port", "apiPort", portProblem],
  ["--api-address", "apiAddress", addressProblem],
  ["--node-name", "nodeName", nodeNameProblem],
  ["--pod-subnet", "podSubnet", subnetProblem],
  ["--service-subnet", "serviceSubnet", serviceSubnetProblem],
  ["--bridge", "bridge", bridgeProblem],
  ["--dataplane-group", "dataplaneGroup", groupProblem],
];

/** One text for each setting that cannot be. What was kept from an earlier start is this machine's own, and is right. */
export function settingProblems(
  asked: AskedSettings,
  kept: Partial<AskedSettings>,
  host: HostFacts,
): readonly string[] {
  return RULES.flatMap(([flag, setting, problem]) => {
    if (asked[setting] === kept[setting]) return [];
    const text = problem(asked, host);
    return text === undefined ? [] : [`${flag} ${String(asked[setting])}: ${text}`];
  });
}

/** Flags that a machine which is up cannot follow, each with what is so instead. */
export function ignoredFlags(
  asked: Partial<AskedSettings>,
  kept: Partial<AskedSettings>,
): readonly string[] {
  return RULES.flatMap(([flag, setting]) => {
    const wanted = asked[setting];
    if (wanted === undefined || wanted === kept[setting]) return [];
    return [
      `${flag} ${String(wanted)} is ignored: the machine is already up with ${String(kept[setting])}; stop it first with: patchbay down`,
    ];
  });
}
