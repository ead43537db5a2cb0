// SPDX-License-Identifier: Apache-2.0
// What the node agent reports of the ifaces: `status.interfaces`.
import type { IfacePhase, IfaceStatus } from "@patchbay/api";
import type { IfaceFacts } from "../iface/facts.ts";
import { kindOfPhase, phaseOf } from "../iface/phase.ts";
import type { NoPort } from "../pcie/ports.ts";
import type { Hindrance } from "./hindrance.ts";

/** What the report needs beside the facts. */
export interface IfaceReport {
  readonly ifaces: readonly IfaceFacts[];
  /** By name of the iface. */
  readonly hindrances: Readonly<Record<string, Hindrance | undefined>>;
  /** Ifaces for which there is no port, by name. */
  readonly portless: ReadonlyMap<string, NoPort>;
  /** RFC 3339. */
  readonly now: string;
}

type Hotplug = NonNullable<IfaceStatus["hotplug"]>;

function attachmentHindrance(
  facts: IfaceFacts,
  phase: IfacePhase,
): Omit<Hindrance, "attempts"> | undefined {
  const { attachment } = facts;
  if (phase !== "PodAttaching" || attachment?.state !== "Failed") return undefined;
  return { reason: attachment.reason ?? "CniFailed", message: attachment.message ?? "" };
}

function bindingHindrance({ binding }: IfaceFacts): Hindrance | undefined {
  if (binding.kind !== "refused") return undefined;
  const { field, reason, message } = binding;
  return { reason, message: `${field}: ${message}`, attempts: 0 };
}

function portHindrance(facts: IfaceFacts, report: IfaceReport): Hindrance | undefined {
  const noPort = report.portless.get(facts.name);
  return noPort === undefined ? undefined : { ...noPort, attempts: 0 };
}

/** What keeps a plug from going on, with nothing tried on the node; of a NIC that is there it would be an old word. */
function waitOf(
  facts: IfaceFacts,
  phase: IfacePhase,
  report: IfaceReport,
): Omit<Hindrance, "attempts"> | undefined {
  if (phase === "Ready" || kindOfPhase(phase) === "Unplug") return undefined;
  return (
    bindingHindrance(facts) ?? attachmentHindrance(facts, phase) ?? portHindrance(facts, report)
  );
}

function hotplugOf(facts: IfaceFacts, phase: IfacePhase, report: IfaceReport): Hotplug {
  const hindrance = report.hindrances[facts.name] ?? waitOf(facts, phase, report);
  const previous = facts.reported?.hotplug;
  return {
    type: kindOfPhase(phase),
    phase,
    ...hindrance,
    since: previous?.phase === phase ? (previous.since ?? report.now) : report.now,
  };
}

/** Tokens in KubeVirt's order. Source: KubeVirt network/vmispec/infosource.go. */
function infoSourceOf(facts: IfaceFacts): string {
  return [
    ...(facts.device === undefined ? [] : ["domain"]),
    ...(facts.device?.guestName === undefined ? [] : ["guest-agent"]),
    ...(facts.attachment?.state === "Attached" ? ["multus-status"] : []),
  ].join(", ");
}

function deviceFields(facts: IfaceFacts): Partial<IfaceStatus> {
  if (facts.device === undefined) return {};
  const { mac, pciAddress, guestName } = facts.device;
  return {
    mac,
    queueCount: facts.device.queues,
    linkState: facts.device.linkUp ? "up" : "down",
    ...(pciAddress === undefined ? {} : { pciAddress }),
    ...(guestName === undefined ? {} : { interfaceName: guestName }),
  };
}

function addressFields(facts: IfaceFacts): Partial<IfaceStatus> {
  const ips = facts.attachment?.ips;
  const first = ips?.[0];
  return ips === undefined || first === undefined
    ? {}
    : { ipAddress: first, ipAddresses: [...ips] };
}

function statusOf(facts: IfaceFacts, report: IfaceReport): IfaceStatus | undefined {
  const phase = phaseOf(facts);
  if (phase === undefined) return undefined;
  return {
    name: facts.name,
    podInterfaceName: facts.podInterfaceName,
    infoSource: infoSourceOf(facts),
    ...addressFields(facts),
    ...deviceFields(facts),
    hotplug: hotplugOf(facts, phase, report),
  };
}

/** One entry for each iface that there is anything of, in the order of the facts. */
export function ifaceStatuses(report: IfaceReport): readonly IfaceStatus[] {
  return report.ifaces.flatMap((facts) => statusOf(facts, report) ?? []);
}
