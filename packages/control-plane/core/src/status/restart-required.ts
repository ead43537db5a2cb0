// SPDX-License-Identifier: Apache-2.0
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
import {
  canFollowMtu,
  canPlug,
  findNetworkSwap,
  NETWORK_FIELDS,
  type NicsSyncInput,
} from "../nics/spec-plan.ts";
import { listHeldClaims, withoutUnusedSlots } from "../nics/claimed-nics.ts";
import { findByName, withNics, nicsOf, type Nics } from "../nics/nics.ts";

const SPEC_PATH = "spec.template.spec";
const IFACES_PATH = `${SPEC_PATH}.domain.devices.interfaces`;
const NETWORKS_PATH = `${SPEC_PATH}.networks`;

type NamedEntry = JsonObject & { readonly name: string };

function isNamed(entry: unknown): entry is NamedEntry {
  return isJsonObject(entry) && typeof entry["name"] === "string";
}

/** Returns the paths at which two lists of named entries differ. A removed or moved entry yields the path of the list. */
function listDifferingEntries(
  wantedEntries: readonly NamedEntry[],
  actualEntries: readonly NamedEntry[],
  path: string,
): readonly string[] {
  const names = (entries: readonly NamedEntry[]): readonly string[] =>
    entries.map(({ name }) => name);
  const commonNames = names(wantedEntries).filter((name) => names(actualEntries).includes(name));
  const entries = wantedEntries.flatMap((entry, index) => {
    const entryPath = `${path}[${String(index)}]`;
    const actualEntry = findByName(actualEntries, entry.name);
    return actualEntry === undefined
      ? [entryPath]
      : listDifferingLeaves(entry, actualEntry, entryPath);
  });
  return [...(isEqual(commonNames, names(actualEntries)) ? [] : [path]), ...entries];
}

function listDifferingLeaves(wanted: unknown, actual: unknown, path: string): readonly string[] {
  if (isEqual(wanted, actual)) return [];
  if (Array.isArray(wanted) && Array.isArray(actual)) {
    const isList = wanted.every(isNamed) && actual.every(isNamed);
    return isList ? listDifferingEntries(wanted, actual, path) : [path];
  }
  if (!isJsonObject(wanted) || !isJsonObject(actual)) return [path];
  const keys = new Set([...Object.keys(wanted), ...Object.keys(actual)]);
  return [...keys].flatMap((key) =>
    listDifferingLeaves(wanted[key], actual[key], `${path}.${key}`),
  );
}

/** Interface fields that can be changed in any running guest. */
const GUEST_INDEPENDENT_FIELDS: readonly string[] = ["state", "bandwidth"];

/** Lists the fields of an interface that change without a restart. A network swap also changes {@link NETWORK_FIELDS}. */
function listLiveFields(
  wanted: Iface,
  isSwapping: boolean,
  reported: NicsSyncInput["reported"],
): readonly string[] {
  // If the template contains no MAC, the interface retains its current MAC.
  const hasNoMac = (wanted.macAddress ?? "") === "";
  return [
    ...GUEST_INDEPENDENT_FIELDS,
    ...(hasNoMac ? ["macAddress"] : []),
    ...(canFollowMtu(wanted, reported) ? ["mtu"] : []),
    ...(isSwapping ? NETWORK_FIELDS : []),
  ];
}

function omitLiveFields(iface: Iface, liveFields: readonly string[]): JsonObject {
  const mac = iface.macAddress === undefined ? {} : { macAddress: normalizeMac(iface.macAddress) };
  return { ...iface, ...mac, ...Object.fromEntries(liveFields.map((field) => [field, undefined])) };
}

/** Checks whether the interface is being unplugged. If so, its changes need no restart, because the next plug uses the new values. */
function isBeingUnplugged(actual: Nics, name: string): boolean {
  const iface = findByName(actual.ifaces, name);
  return iface !== undefined && isAbsent(iface);
}

function listChangedIfaces(sides: NicsSyncInput): readonly string[] {
  const { desired, actual, reported } = sides;
  return desired.ifaces.flatMap((iface, index) => {
    const path = `${IFACES_PATH}[${String(index)}]`;
    const running = findByName(actual.ifaces, iface.name);
    if (running === undefined) return isAbsent(iface) || canPlug(iface, sides) ? [] : [path];
    if (isAbsent(running)) return [];
    const live = listLiveFields(iface, findNetworkSwap(sides, iface.name) !== undefined, reported);
    return listDifferingLeaves(omitLiveFields(iface, live), omitLiveFields(running, live), path);
  });
}

function listChangedNetworks(sides: NicsSyncInput): readonly string[] {
  const { desired, actual } = sides;
  return desired.networks.flatMap((network, index) => {
    const path = `${NETWORKS_PATH}[${String(index)}]`;
    const running = findByName(actual.networks, network.name);
    if (running === undefined) return isDefaultNetwork(network) ? [path] : [];
    const isLive =
      isBeingUnplugged(actual, network.name) || findNetworkSwap(sides, network.name) !== undefined;
    return isLive ? [] : listDifferingLeaves(network, running, path);
  });
}

/** Lists the paths of a removed default network. Its removal needs a restart, because a running pod retains its default network. */
function listRemovedDefault(wanted: Nics, actual: Nics): readonly string[] {
  const defaultNetworks = actual.networks.filter(isDefaultNetwork);
  return defaultNetworks.flatMap(({ name }) => [
    ...(findByName(wanted.networks, name) === undefined ? [NETWORKS_PATH] : []),
    ...(findByName(wanted.ifaces, name) === undefined ? [IFACES_PATH] : []),
  ]);
}

/** Removes the start strategy and, if `isShortened`, the grace period. Start and stop requests set these fields only in the VMI. */
function withoutRequests(spec: VmiSpec, isShortened: boolean): JsonObject {
  const graceSeconds = isShortened ? undefined : spec.terminationGracePeriodSeconds;
  return { ...spec, startStrategy: undefined, terminationGracePeriodSeconds: graceSeconds };
}

function listOtherChanges(wanted: VmiSpec, actual: VmiSpec): readonly string[] {
  const seconds = actual.terminationGracePeriodSeconds ?? Infinity;
  const isShortened = seconds < (wanted.terminationGracePeriodSeconds ?? Infinity);
  const [wantedRest, actualRest] = [wanted, actual].map((spec) =>
    withoutRequests(withNics(spec, [], []), isShortened),
  );
  return listDifferingLeaves(wantedRest, actualRest, SPEC_PATH);
}

/** Lists the changed NIC fields of a VM whose NIC changes all wait for the next start. Ignores interfaces that are being unplugged. */
function listStagedNics({ desired, actual }: NicsSyncInput): readonly string[] {
  const [wantedIfaces, existingIfaces] = [desired, actual].map((nics) =>
    nics.ifaces.filter((candidate) => !isAbsent(candidate)),
  );
  const names = (ifaces: readonly Iface[] = []): readonly string[] =>
    ifaces.map(({ name }) => name);
  const removedNames = names(existingIfaces).filter((name) => !names(wantedIfaces).includes(name));
  const isListed = (name: string): boolean => findByName(desired.ifaces, name) !== undefined;
  return [
    ...desired.ifaces.flatMap((iface, index) => {
      const path = `${IFACES_PATH}[${String(index)}]`;
      if (isAbsent(iface)) return removedNames.includes(iface.name) ? [`${path}.state`] : [];
      const running = findByName(existingIfaces, iface.name);
      if (running === undefined) return [path];
      const mutableFields = listLiveFields(iface, false, undefined).filter(
        (field) => !GUEST_INDEPENDENT_FIELDS.includes(field),
      );
      return listDifferingLeaves(
        omitLiveFields(iface, mutableFields),
        omitLiveFields(running, mutableFields),
        path,
      );
    }),
    ...desired.networks.flatMap((network, index) => {
      if (!names(wantedIfaces).includes(network.name)) return [];
      const path = `${NETWORKS_PATH}[${String(index)}]`;
      const running =
        findByName(existingIfaces, network.name) && findByName(actual.networks, network.name);
      return running === undefined ? [path] : listDifferingLeaves(network, running, path);
    }),
    ...removedNames.flatMap((name) => (isListed(name) ? [] : [IFACES_PATH, NETWORKS_PATH])),
  ];
}

function listWaitingNics(sides: NicsSyncInput, isStaged: boolean): readonly string[] {
  if (isStaged) return listStagedNics(sides);
  const { desired, actual } = sides;
  return [
    ...listChangedNetworks(sides),
    ...listChangedIfaces(sides),
    ...listRemovedDefault(desired, actual),
  ];
}

export interface Rollout {
  readonly bindings: BindingRegistry;
  /** Whether NIC changes take effect only at the next start. */
  readonly isStaged: boolean;
}

/** Lists the paths of template fields that differ from the running VMI and take effect only after a restart. */
export function listRestartRequiredFields(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance,
  { bindings, isStaged }: Rollout,
): readonly string[] {
  const spec = effectiveVmiSpec(vm.spec.template.spec);
  const running = effectiveVmiSpec(vmi.spec);
  const { interfaces: reported } = vmi.status ?? {};
  const heldClaims = listHeldClaims(spec, running);
  const sides = { desired: nicsOf(spec), actual: nicsOf(running), bindings, reported, heldClaims };
  const fields = [
    ...listOtherChanges(spec, withoutUnusedSlots(running, spec)),
    ...listWaitingNics(sides, isStaged),
  ];
  return [...new Set(fields)].sort();
}
