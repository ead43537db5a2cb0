// SPDX-License-Identifier: Apache-2.0
// Builds the CNI request of an attachment: configuration, arguments and capabilities. Source: NPWG 1.3 section 4.1.2; CNI CONVENTIONS.
import {
  normalizeMac,
  parseIp,
  printAddress,
  validateNetworkSelection,
  type NetworkSelection,
} from "@patchbay/api";
import { hasCapability, findNetworkStatus, withCniArgs } from "@patchbay/cni";
import { AppError } from "@patchbay/base";
import type { WantedAttachment } from "@patchbay/core/nics";
import { parseKey } from "@patchbay/kube";
import type {
  AttachmentRequest,
  CniResult,
  NetworkConfigList,
  Sandbox,
} from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";
import { readDefinition } from "./definition.ts";

/** Attributes that plugins get unchanged, with the capability that one must declare. Source: CNI CONVENTIONS; NPWG 1.3 section 4.1.2.1. */
const CAPABILITIES = [
  ["portMappings", "portMappings"],
  ["bandwidth", "bandwidth"],
  ["infiniband-guid", "infinibandGUID"],
] as const;

function toValues(selection: NetworkSelection): ReadonlyMap<string, unknown> {
  return new Map<string, unknown>(Object.entries(selection));
}

/** @throws AppError with CNI_REQUEST_INVALID, with all causes */
function assertValid({ network, selection }: WantedAttachment): void {
  const causes = validateNetworkSelection(selection).map(
    ({ field, message }) => `${field}: ${message}`,
  );
  if (causes.length === 0) return;
  throw new AppError("CNI_REQUEST_INVALID", { network, reason: causes.join("; ") });
}

async function readRequestedConfig(
  wanted: WantedAttachment,
  deps: Deps,
): Promise<NetworkConfigList> {
  const { network, selection } = wanted;
  assertValid(wanted);
  const config = await readDefinition(network, deps);
  const cniArgs = selection["cni-args"];
  return cniArgs == null ? config : withCniArgs(config, cniArgs);
}

/** Arguments about the pod for every plugin. Source: CNI CONVENTIONS, "CNI_ARGS"; Kubernetes dockershim. */
export function buildPodArgs(
  facts: PodFacts,
  sandbox: Sandbox,
): readonly (readonly [string, string])[] {
  const { namespace = "", name } = parseKey(facts.key);
  return [
    ["IgnoreUnknown", "1"],
    ["K8S_POD_NAMESPACE", namespace],
    ["K8S_POD_NAME", name],
    ["K8S_POD_INFRA_CONTAINER_ID", sandbox.id],
    ["K8S_POD_UID", facts.uid],
  ];
}

function buildArgs({ mac, ips = [] }: NetworkSelection): readonly (readonly [string, string])[] {
  return [
    ...(mac === undefined ? [] : [["MAC", normalizeMac(mac)] as const]),
    ...(ips.length === 0 ? [] : [["IP", ips.join(",")] as const]),
  ];
}

/** @throws AppError with CNI_REQUEST_NOT_MET if no plugin declares the capability of an attribute */
function buildDeclaredArgs(
  selection: NetworkSelection,
  config: NetworkConfigList,
): Readonly<Record<string, unknown>> {
  const values = toValues(selection);
  const requested = CAPABILITIES.filter(([key]) => values.get(key) !== undefined);
  const undeclared = requested.find(([, capability]) => !hasCapability(config, capability));
  if (undeclared !== undefined) {
    const what = `${undeclared[0]}, which no plugin of the network supports`;
    throw new AppError("CNI_REQUEST_NOT_MET", { what });
  }
  return Object.fromEntries(requested.map(([key, capability]) => [capability, values.get(key)]));
}

function buildCapabilityArgs(
  selection: NetworkSelection,
  config: NetworkConfigList,
): Readonly<Record<string, unknown>> {
  const { mac, ips = [] } = selection;
  return {
    ...(mac !== undefined && hasCapability(config, "mac") ? { mac: normalizeMac(mac) } : {}),
    ...(ips.length > 0 && hasCapability(config, "ips") ? { ips } : {}),
    ...buildDeclaredArgs(selection, config),
  };
}

/** @throws AppError with the errors of {@link readDefinition}, CNI_REQUEST_INVALID, CNI_REQUEST_NOT_MET */
export async function buildRequest(
  wanted: WantedAttachment,
  target: { readonly facts: PodFacts; readonly sandbox: Sandbox },
  deps: Deps,
): Promise<AttachmentRequest> {
  const { facts, sandbox } = target;
  const config = await readRequestedConfig(wanted, deps);
  return {
    containerId: sandbox.id,
    netnsPath: sandbox.netnsPath,
    interfaceName: wanted.interfaceName,
    config,
    args: [...buildPodArgs(facts, sandbox), ...buildArgs(wanted.selection)],
    capabilityArgs: buildCapabilityArgs(wanted.selection, config),
  };
}

function toCanonicalIp(text: string): string | undefined {
  const ip = parseIp(text);
  return ip && printAddress(ip);
}

/** Networks may ignore requests without an error. `observedMac` is used for results without a MAC. Source: NPWG 1.3 section 4.1.2.1. */
export function findMissing(
  wanted: WantedAttachment,
  result: CniResult,
  observedMac: string | undefined,
): { readonly mac?: string; readonly ips?: string } {
  const { mac, ips = [] } = wanted.selection;
  const assigned = findNetworkStatus(result, wanted.network, wanted.interfaceName);
  const actualMac = assigned.mac ?? observedMac;
  const has = new Set((assigned.ips ?? []).map(toCanonicalIp));
  const missing = ips.filter((ip) => !has.has(toCanonicalIp(ip)));
  return {
    ...(mac === undefined || normalizeMac(mac) === normalizeMac(actualMac ?? "")
      ? {}
      : { mac: `MAC ${mac}; the interface has ${actualMac ?? "none"}` }),
    ...(missing.length === 0 ? {} : { ips: `addresses ${missing.join(", ")}` }),
  };
}
