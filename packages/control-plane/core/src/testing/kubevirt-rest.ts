// SPDX-License-Identifier: Apache-2.0
// Rows about admission, subresources, the node and migration.
import type { Iface, IfaceStatus, Network } from "@patchbay/api";
import { validateVmiSpec } from "@patchbay/api/validate";
import { aPod } from "@patchbay/support";
import { NO_LINKS, type IfaceFacts } from "../nics/facts.ts";
import { decidePhase } from "../nics/phase.ts";
import { planNodeVm } from "../vm/node/node-vm.ts";
import { parseAddIface, parseRemoveIface } from "../requests/ifaces.ts";
import { findCondition } from "../status/conditions.ts";
import { buildVmiStatus } from "../status/vmi.ts";
import { nicsAfterRequests } from "./kubevirt-queue.ts";
import { factsOf as factsOfNode } from "./node-scene.ts";
import { ours, same, vmiOf, type Cases, type RowNics } from "./kubevirt-case.ts";
import { CLUSTER } from "./launcher-facts.ts";

interface AdmissionRow extends Omit<Iface, "name"> {
  readonly interfaces?: readonly (Iface | string)[];
  readonly networks?: readonly Network[];
  readonly bridgeOnPodNetworkAllowed?: boolean;
  readonly portRangesGate?: boolean;
}

const NO_FIELDS = ["interfaces", "networks", "bridgeOnPodNetworkAllowed", "portRangesGate"];

/** Rows without interfaces are about one NIC on the pod network, with the binding of KubeVirt's test. */
function buildNics(row: AdmissionRow): {
  readonly interfaces: readonly Iface[];
  readonly networks: readonly Network[];
} {
  const { interfaces, networks } = row;
  const known = Object.entries(row).filter(([key]) => !NO_FIELDS.includes(key));
  const binding = row.portRanges === undefined ? { bridge: {} } : { masquerade: {} };
  const declared = interfaces ?? [{ name: "default", ...binding, ...Object.fromEntries(known) }];
  return {
    interfaces: declared.map((iface) =>
      typeof iface === "string" ? { name: iface, bridge: {} } : iface,
    ),
    networks: networks ?? [{ name: "default", pod: {} }],
  };
}

function listCauses(row: AdmissionRow): unknown {
  return validateVmiSpec(vmiOf(buildNics(row)).spec, "fake").map(({ reason, message, field }) => ({
    type: reason,
    message,
    field,
  }));
}

const RANGES = "ranges are there without a gate; the one of this row names no protocol";
const NO_PROTOCOL = {
  type: "FieldValueInvalid",
  message: "Unknown protocol, only TCP or UDP allowed",
  field: "fake.domain.devices.interfaces[0].portRanges[0].protocol",
};
const judged = same(listCauses);

export const ADMISSION_CASES: Cases = {
  "state '' accepted for bridge": judged,
  "state 'up' accepted for bridge": judged,
  "unknown state": judged,
  "state up on SR-IOV": judged,
  "absent on the default network": judged,
  "interface without network": judged,
  "duplicate interface name": judged,
  "bad model": judged,
  "MAC DE:AD:00:00:BE:AF accepted": judged,
  "MAC DE-AD-00-00-BE-AF accepted": judged,
  "PCI address 0000:80:80:1.0 rejected": judged,
  "PCI address 0000:81:11.1 accepted": judged,
  "MAC too short": judged,
  "MAC too long": judged,
  "port ranges without gate": ours(RANGES, [NO_PROTOCOL], listCauses),
  "port range start 0": judged,
  "port range start after end": judged,
};

interface BodyRow {
  readonly body: unknown;
}

function findHttpStatus(
  parsed: ReturnType<typeof parseAddIface | typeof parseRemoveIface>,
): unknown {
  return { httpStatus: parsed.ok ? 202 : parsed.refusal.code };
}

const NO_QUEUE =
  "a request is written into the specification at once: there is no queue of requests in the status";

export const SUBRESOURCE_CASES: Cases = {
  "valid add request": same(({ body }: BodyRow) => findHttpStatus(parseAddIface(body))),
  "add without interface name": same(({ body }: BodyRow) => findHttpStatus(parseAddIface(body))),
  "remove request": same(({ body }: BodyRow) => findHttpStatus(parseRemoveIface(body))),
  "patch appends to an existing request": ours(
    NO_QUEUE,
    ["default", "iface1", "pluggediface1"],
    nicsAfterRequests,
  ),
  "add while remove of the same name is queued": ours(
    `${NO_QUEUE}; an unplug of the same network is taken back`,
    ["default", "red"],
    nicsAfterRequests,
  ),
  "remove of another name is appended": ours(
    NO_QUEUE,
    ["default", "-blue", "-green", "red"],
    nicsAfterRequests,
  ),
};

interface NodeRow {
  readonly interfaces: readonly Iface[];
  readonly status?: readonly IfaceStatus[];
}

/** Bridge and tap exist if the status has the interface; the device if the domain has it. */
function buildFacts(iface: Iface, status: IfaceStatus | undefined): IfaceFacts {
  const inDomain = status?.infoSource?.includes("domain") === true;
  const device = { alias: iface.name, mac: "02:00:00:00:00:01", linkUp: true, queues: 1 };
  const isUp = status !== undefined;
  return {
    name: iface.name,
    iface,
    binding: { kind: "bridge" },
    podInterfaceName: "pod1",
    links: { ...NO_LINKS, hasPodInterface: true, hasTap: isUp, hasBridge: isUp, isWired: isUp },
    attachment: { name: iface.name, podInterfaceName: "pod1", state: "Attached" },
    ...(inDomain ? { device } : {}),
  };
}

/** NICs whose links are created or removed next. */
function linkWork({ interfaces, status = [] }: NodeRow): readonly string[] {
  return interfaces
    .map((iface) =>
      buildFacts(
        iface,
        status.find(({ name }) => name === iface.name),
      ),
    )
    .filter((facts) => ["Wiring", "Unwiring"].includes(decidePhase(facts) ?? ""))
    .map(({ name }) => name);
}

/** NICs whose links a migration's target creates. */
function targetWork({ interfaces }: NodeRow): readonly string[] {
  const ifaces = interfaces.map((iface) => buildFacts(iface, undefined));
  const steps = planNodeVm(factsOfNode(ifaces, { role: "target" }));
  return steps.flatMap((step) => ("iface" in step ? [step.iface] : []));
}

export const HANDLER_CASES: Cases = {
  "startup skips absent": same(linkWork),
  "live: all attached": same(linkWork),
  "live: absent, detached from domain only": same(linkWork),
  "migration target returns all": same(targetWork),
};

interface EvaluatorRow extends Partial<RowNics> {
  readonly status?: readonly IfaceStatus[];
}

/** Whether NICs wait for a migration, by the VMI's condition. A missing condition is KubeVirt's "Unknown". */
function migrationRequired({ interfaces, networks, status = [] }: EvaluatorRow): unknown {
  const bound = (networks ?? []).map(({ name }) => ({ name, bridge: {} }));
  const nics = { interfaces: interfaces ?? bound, networks: networks ?? null };
  const vmi = vmiOf(nics, { interfaces: [...status] });
  const situation = { vmi, pod: aPod(), ...CLUSTER, failures: [] };
  const { conditions } = buildVmiStatus(situation, "2026-01-01T00:00:00.000Z");
  return findCondition(conditions, "MigrationRequired")?.status ?? "Unknown";
}

const IN_PLACE = "a NIC leaves pod and guest in place: nothing waits for a migration";
const unknown = same(migrationRequired);

export const MIGRATION_CASES: Cases = {
  "no networks": unknown,
  "unplug still in the domain": unknown,
  "unplugged from the domain is pending": ours(IN_PLACE, "Unknown", migrationRequired),
  "pending for 14 s": ours(IN_PLACE, "Unknown", migrationRequired),
  "NAD name equal, namespace implied": unknown,
};
