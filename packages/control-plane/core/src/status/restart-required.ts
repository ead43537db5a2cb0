// SPDX-License-Identifier: Apache-2.0
// Fields of a VM's template that take effect at the next start only.
import {
  isAbsent,
  isDefaultNetwork,
  type BindingRegistry,
  type Iface,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import { effectiveVmiSpec } from "@patchbay/api/validate";
import { normalizeMac } from "@patchbay/api/values";
import { isEqual } from "@patchbay/base";
import { findNetworkSwap, NETWORK_FIELDS, canPlug, type NicsSyncInput } from "../nics/spec-plan.ts";
import { findByName, withNics, nicsOf, type Nics } from "../nics/nics.ts";

const SPEC_PATH = "spec.template.spec";
const IFACES_PATH = `${SPEC_PATH}.domain.devices.interfaces`;
const NETWORKS_PATH = `${SPEC_PATH}.networks`;

type Named = JsonObject & { readonly name: string };

function isNamed(entry: unknown): entry is Named {
  return isJsonObject(entry) && typeof entry["name"] === "string";
}

/** Returns the paths that differ in lists of named entries. A removed entry or another order counts as the list's path. */
function differingEntries(
  wanted: readonly Named[],
  actual: readonly Named[],
  path: string,
): readonly string[] {
  const names = (entries: readonly Named[]): readonly string[] => entries.map(({ name }) => name);
  const common = names(wanted).filter((name) => names(actual).includes(name));
  const entries = wanted.flatMap((entry, index) => {
    const at = `${path}[${String(index)}]`;
    const before = findByName(actual, entry.name);
    return before === undefined ? [at] : differingLeaves(entry, before, at);
  });
  return [...(isEqual(common, names(actual)) ? [] : [path]), ...entries];
}

function differingLeaves(wanted: unknown, actual: unknown, path: string): readonly string[] {
  if (isEqual(wanted, actual)) return [];
  if (Array.isArray(wanted) && Array.isArray(actual)) {
    const isList = wanted.every(isNamed) && actual.every(isNamed);
    return isList ? differingEntries(wanted, actual, path) : [path];
  }
  if (!isJsonObject(wanted) || !isJsonObject(actual)) return [path];
  const keys = new Set([...Object.keys(wanted), ...Object.keys(actual)]);
  return [...keys].flatMap((key) => differingLeaves(wanted[key], actual[key], `${path}.${key}`));
}

/** Lists the fields of an interface that change live. A network swap also changes {@link NETWORK_FIELDS}. */
function liveFields(wanted: Iface, isSwapping: boolean): readonly string[] {
  // Without a MAC in the template, the interface keeps its current one.
  const isMacOpen = (wanted.macAddress ?? "") === "";
  return ["state", ...(isMacOpen ? ["macAddress"] : []), ...(isSwapping ? NETWORK_FIELDS : [])];
}

function fixedPart(iface: Iface, live: readonly string[]): JsonObject {
  const mac = iface.macAddress === undefined ? {} : { macAddress: normalizeMac(iface.macAddress) };
  return { ...iface, ...mac, ...Object.fromEntries(live.map((field) => [field, undefined])) };
}

/** Whether the running interface is being unplugged. It is plugged again afterwards with the new values. */
function isBeingUnplugged(actual: Nics, name: string): boolean {
  const iface = findByName(actual.ifaces, name);
  return iface !== undefined && isAbsent(iface);
}

function changedIfaces(sides: NicsSyncInput): readonly string[] {
  const { desired, actual, bindings } = sides;
  return desired.ifaces.flatMap((iface, index) => {
    const path = `${IFACES_PATH}[${String(index)}]`;
    const running = findByName(actual.ifaces, iface.name);
    if (running === undefined)
      return isAbsent(iface) || canPlug(iface, desired, bindings) ? [] : [path];
    if (isAbsent(running)) return [];
    const live = liveFields(iface, findNetworkSwap(sides, iface.name) !== undefined);
    return differingLeaves(fixedPart(iface, live), fixedPart(running, live), path);
  });
}

function changedNetworks(sides: NicsSyncInput): readonly string[] {
  const { desired, actual } = sides;
  return desired.networks.flatMap((network, index) => {
    const path = `${NETWORKS_PATH}[${String(index)}]`;
    const running = findByName(actual.networks, network.name);
    if (running === undefined) return isDefaultNetwork(network) ? [path] : [];
    const isLive =
      isBeingUnplugged(actual, network.name) || findNetworkSwap(sides, network.name) !== undefined;
    return isLive ? [] : differingLeaves(network, running, path);
  });
}

/** Lists the paths if the pod's default network was removed, because a pod keeps it until it ends. */
function removedDefault(wanted: Nics, actual: Nics): readonly string[] {
  const common = actual.networks.filter(isDefaultNetwork);
  return common.flatMap(({ name }) => [
    ...(findByName(wanted.networks, name) === undefined ? [NETWORKS_PATH] : []),
    ...(findByName(wanted.ifaces, name) === undefined ? [IFACES_PATH] : []),
  ]);
}

/** Clears fields that a start or stop request sets in the VMI. `isShortened`: the VMI has a shorter grace period. */
function withoutRequests(spec: VmiSpec, isShortened: boolean): JsonObject {
  const grace = isShortened ? undefined : spec.terminationGracePeriodSeconds;
  return { ...spec, startStrategy: undefined, terminationGracePeriodSeconds: grace };
}

function changedRest(wanted: VmiSpec, actual: VmiSpec): readonly string[] {
  const seconds = actual.terminationGracePeriodSeconds ?? Infinity;
  const isShortened = seconds < (wanted.terminationGracePeriodSeconds ?? Infinity);
  const [wantedRest, actualRest] = [wanted, actual].map((spec) =>
    withoutRequests(withNics(spec, [], []), isShortened),
  );
  return differingLeaves(wantedRest, actualRest, SPEC_PATH);
}

/** Lists all differences, for VMs whose NICs do not change live. Ignores interfaces that are being unplugged. */
function stagedNics({ desired, actual }: NicsSyncInput): readonly string[] {
  const [wanted, existing] = [desired, actual].map((nics) =>
    nics.ifaces.filter((each) => !isAbsent(each)),
  );
  const names = (ifaces: readonly Iface[] = []): readonly string[] =>
    ifaces.map(({ name }) => name);
  const removed = names(existing).filter((name) => !names(wanted).includes(name));
  const isListed = (name: string): boolean => findByName(desired.ifaces, name) !== undefined;
  return [
    ...desired.ifaces.flatMap((iface, index) => {
      const path = `${IFACES_PATH}[${String(index)}]`;
      if (isAbsent(iface)) return removed.includes(iface.name) ? [`${path}.state`] : [];
      const running = findByName(existing, iface.name);
      if (running === undefined) return [path];
      const open = liveFields(iface, false).filter((field) => field !== "state");
      return differingLeaves(fixedPart(iface, open), fixedPart(running, open), path);
    }),
    ...desired.networks.flatMap((network, index) => {
      if (!names(wanted).includes(network.name)) return [];
      const path = `${NETWORKS_PATH}[${String(index)}]`;
      const running =
        findByName(existing, network.name) && findByName(actual.networks, network.name);
      return running === undefined ? [path] : differingLeaves(network, running, path);
    }),
    ...removed.flatMap((name) => (isListed(name) ? [] : [IFACES_PATH, NETWORKS_PATH])),
  ];
}

function waitingNics(sides: NicsSyncInput, isStaged: boolean): readonly string[] {
  if (isStaged) return stagedNics(sides);
  const { desired, actual } = sides;
  return [...changedNetworks(sides), ...changedIfaces(sides), ...removedDefault(desired, actual)];
}

export interface Rollout {
  readonly bindings: BindingRegistry;
  /** Whether NIC changes wait for the next start. */
  readonly isStaged: boolean;
}

/** Lists the paths of template fields that differ from the running VMI and cannot change live. */
export function restartRequiredFields(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance,
  { bindings, isStaged }: Rollout,
): readonly string[] {
  const spec = effectiveVmiSpec(vm.spec.template.spec);
  const running = effectiveVmiSpec(vmi.spec);
  const sides = { desired: nicsOf(spec), actual: nicsOf(running), bindings };
  const fields = [...changedRest(spec, running), ...waitingNics(sides, isStaged)];
  return [...new Set(fields)].sort();
}
