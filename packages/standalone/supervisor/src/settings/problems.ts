// SPDX-License-Identifier: Apache-2.0
// Validates settings before anything is created, and reports all problems together.
import { isIP } from "node:net";
import { checkDataplaneGroup } from "@patchbay/core/nics";
import { overlaps } from "./subnet.ts";

/** Requested settings. If a subnet is missing, the supervisor chooses one after this check. */
export interface RequestedSettings {
  readonly apiPort: number;
  readonly nodeName: string;
  readonly bridge: string;
  readonly podSubnet?: string;
  readonly serviceSubnet?: string;
  readonly apiAddress?: string;
  readonly dataplaneGroup?: number;
}

export interface OtherMachine {
  readonly dataDir: string;
  /** Whether the machine runs, or starts at boot. */
  readonly isActive: boolean;
  readonly settings: Partial<RequestedSettings>;
}

export interface HostFacts {
  readonly machines: readonly OtherMachine[];
  readonly links: readonly string[];
  /** Networks with routes on the host, in CIDR notation. */
  readonly routes: readonly string[];
  readonly isPortFree: boolean;
}

const PORT_MAX = 65_535;
/** Maximum length of a link's name. Source: IFNAMSIZ in linux/if.h, less the zero byte. */
const LINK_NAME_MAX_BYTES = 15;
const LINK_NAME_PATTERN = /^[^/\s:]+$/;
const SUBNET_PATTERN = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.0\/24$/;
const SERVICE_SUBNET_PATTERN = /^(\d{1,3})\.(\d{1,3})\.0\.0\/16$/;
/** Pattern of node names. Source: "DNS Subdomain Names" of the Kubernetes documentation. */
const NODE_NAME_PATTERN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const NODE_NAME_MAX = 253;

export function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= PORT_MAX;
}

function findPortProblem(
  { apiPort }: RequestedSettings,
  { isPortFree }: HostFacts,
): string | undefined {
  if (!isPort(apiPort)) return "it must be from 1 to 65535";
  return isPortFree ? undefined : "another program listens on it";
}

/** Pattern of wildcard and loopback addresses, at which pods cannot reach the API server. */
const UNREACHABLE_ADDRESS_PATTERN = /^(0\.0\.0\.0|127\.\d+\.\d+\.\d+|::|::1)$/;

function findAddressProblem({ apiAddress }: RequestedSettings): string | undefined {
  if (apiAddress === undefined) return undefined;
  if (isIP(apiAddress) === 0) return "it is not an IP address";
  return UNREACHABLE_ADDRESS_PATTERN.test(apiAddress)
    ? "pods cannot reach the API server at that address"
    : undefined;
}

function findNodeNameProblem({ nodeName }: RequestedSettings): string | undefined {
  if (NODE_NAME_PATTERN.test(nodeName) && nodeName.length <= NODE_NAME_MAX) return undefined;
  return "it must consist of lower case letters, digits, - and .";
}

function findBridgeProblem(
  { bridge }: RequestedSettings,
  { links }: HostFacts,
): string | undefined {
  if (new TextEncoder().encode(bridge).length > LINK_NAME_MAX_BYTES)
    return `it is longer than ${String(LINK_NAME_MAX_BYTES)} characters`;
  if (!LINK_NAME_PATTERN.test(bridge) || bridge === "." || bridge === "..")
    return "it is not a valid link name";
  return links.includes(bridge) ? "the host already has a link of that name" : undefined;
}

function findSubnetProblem(
  { podSubnet }: RequestedSettings,
  { routes }: HostFacts,
): string | undefined {
  if (podSubnet === undefined) return undefined;
  const bytes = SUBNET_PATTERN.exec(podSubnet)?.slice(1).map(Number);
  if (bytes === undefined || bytes.some((byte) => byte > 255))
    return "it must be like 10.88.1.0/24";
  const conflict = routes.find((route) => overlaps(podSubnet, route));
  return conflict === undefined ? undefined : `the host has a route to ${conflict}`;
}

function findServiceSubnetProblem(
  { serviceSubnet, podSubnet }: RequestedSettings,
  { routes }: HostFacts,
): string | undefined {
  if (serviceSubnet === undefined) return undefined;
  const bytes = SERVICE_SUBNET_PATTERN.exec(serviceSubnet)?.slice(1).map(Number);
  if (bytes === undefined || bytes.some((byte) => byte > 255))
    return "it must be like 10.97.0.0/16";
  if (podSubnet !== undefined && overlaps(serviceSubnet, podSubnet))
    return `the pods have ${podSubnet}`;
  const conflict = routes.find((route) => overlaps(serviceSubnet, route));
  return conflict === undefined ? undefined : `the host has a route to ${conflict}`;
}

function findGroupProblem({ dataplaneGroup }: RequestedSettings): string | undefined {
  return dataplaneGroup === undefined ? undefined : checkDataplaneGroup(dataplaneGroup);
}

const CHECKS: readonly (readonly [
  flag: string,
  setting: keyof RequestedSettings,
  problem: (requested: RequestedSettings, host: HostFacts) => string | undefined,
])[] = [
  ["--api-port", "apiPort", findPortProblem],
  ["--api-address", "apiAddress", findAddressProblem],
  ["--node-name", "nodeName", findNodeNameProblem],
  ["--pod-subnet", "podSubnet", findSubnetProblem],
  ["--service-subnet", "serviceSubnet", findServiceSubnetProblem],
  ["--bridge", "bridge", findBridgeProblem],
  ["--dataplane-group", "dataplaneGroup", findGroupProblem],
];

function listClaimed(setting: keyof RequestedSettings, machine: OtherMachine): readonly string[] {
  const { bridge, podSubnet, serviceSubnet, apiPort } = machine.settings;
  if (setting === "bridge") return bridge === undefined ? [] : [bridge];
  if (setting === "podSubnet" || setting === "serviceSubnet")
    return [podSubnet, serviceSubnet].filter((subnet) => subnet !== undefined);
  const claimsPort = setting === "apiPort" && machine.isActive && apiPort !== undefined;
  return claimsPort ? [String(apiPort)] : [];
}

function findMachineConflict(
  setting: keyof RequestedSettings,
  value: string | number | undefined,
  machines: readonly OtherMachine[],
): string | undefined {
  const text = String(value);
  for (const machine of value === undefined ? [] : machines) {
    const claimed = listClaimed(setting, machine).find(
      (one) => one === text || overlaps(one, text),
    );
    if (claimed === undefined) continue;
    const state = machine.isActive ? "" : ", which is down,";
    return `the machine in ${machine.dataDir}${state} has ${claimed}; choose another, or delete that machine: patchbay --data-dir ${machine.dataDir} down --purge`;
  }
  return undefined;
}

/**
 * Checks changed values against the host. Unchanged values are checked only against other active machines, because the machine's own
 * bridge and routes would seem to conflict with such values.
 */
export function findSettingProblems(
  requested: RequestedSettings,
  stored: Partial<RequestedSettings>,
  host: HostFacts,
): readonly string[] {
  const activeMachines = host.machines.filter(({ isActive }) => isActive);
  return CHECKS.flatMap(([flag, setting, problem]) => {
    const isChanged = requested[setting] !== stored[setting];
    const machines = isChanged ? host.machines : activeMachines;
    const conflict = findMachineConflict(setting, requested[setting], machines);
    const text = conflict ?? (isChanged ? problem(requested, host) : undefined);
    return text === undefined ? [] : [`${flag} ${String(requested[setting])}: ${text}`];
  });
}

export function describeIgnoredFlags(
  requested: Partial<RequestedSettings>,
  stored: Partial<RequestedSettings>,
): readonly string[] {
  return CHECKS.flatMap(([flag, setting]) => {
    const requestedValue = requested[setting];
    if (requestedValue === undefined || requestedValue === stored[setting]) return [];
    return [
      `${flag} ${String(requestedValue)} is ignored: the machine is already up with ${String(stored[setting])}; stop it first with: patchbay down`,
    ];
  });
}
