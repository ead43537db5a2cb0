// SPDX-License-Identifier: Apache-2.0
// What of a VM's template takes effect at the next start only.
import {
  isAbsent,
  isDefaultNetwork,
  isJsonObject,
  type Iface,
  type VirtualMachine,
  type VirtualMachineInstance,
  type JsonObject,
} from "@patchbay/api";
import { isEqual } from "../equal.ts";
import { canPlug } from "../plan/vm/nics.ts";
import { findByName, withNics, nicsOf, type Nics } from "../spec/nics.ts";

const BASE = "spec.template.spec";
const IFACES = `${BASE}.domain.devices.interfaces`;
const NETWORKS = `${BASE}.networks`;

/** Paths of the innermost fields in which two values differ. */
function differingLeaves(wanted: unknown, actual: unknown, path: string): readonly string[] {
  if (isEqual(wanted, actual)) return [];
  if (!isJsonObject(wanted) || !isJsonObject(actual)) return [path];
  const keys = new Set([...Object.keys(wanted), ...Object.keys(actual)]);
  return [...keys].flatMap((key) => differingLeaves(wanted[key], actual[key], `${path}.${key}`));
}

function withoutState(iface: Iface): JsonObject {
  return { ...iface, state: undefined };
}

/** An iface that is leaving is plugged anew afterwards, as the VM wants it then. */
function isLeaving(actual: Nics, name: string): boolean {
  const iface = findByName(actual.ifaces, name);
  return iface !== undefined && isAbsent(iface);
}

function changedIfaces(wanted: Nics, actual: Nics): readonly string[] {
  return wanted.ifaces.flatMap((iface, index) => {
    const path = `${IFACES}[${String(index)}]`;
    const running = findByName(actual.ifaces, iface.name);
    if (running === undefined) return isAbsent(iface) || canPlug(iface, wanted) ? [] : [path];
    if (isAbsent(running)) return [];
    return differingLeaves(withoutState(iface), withoutState(running), path);
  });
}

function changedNetworks(wanted: Nics, actual: Nics): readonly string[] {
  return wanted.networks.flatMap((network, index) => {
    const path = `${NETWORKS}[${String(index)}]`;
    const running = findByName(actual.networks, network.name);
    if (running !== undefined) {
      return isLeaving(actual, network.name) ? [] : differingLeaves(network, running, path);
    }
    return isDefaultNetwork(network) ? [path] : [];
  });
}

/** The pod has its default network to the end. */
function removedDefault(wanted: Nics, actual: Nics): readonly string[] {
  const kept = actual.networks.filter(isDefaultNetwork);
  return kept.flatMap(({ name }) => [
    ...(findByName(wanted.networks, name) === undefined ? [NETWORKS] : []),
    ...(findByName(wanted.ifaces, name) === undefined ? [IFACES] : []),
  ]);
}

/** Paths of the template that differ from the running VMI in something that cannot be changed live. */
export function restartRequiredFields(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance,
): readonly string[] {
  const { spec } = vm.spec.template;
  const [wanted, actual] = [nicsOf(spec), nicsOf(vmi.spec)];
  const fields = [
    ...differingLeaves(withNics(spec, [], []), withNics(vmi.spec, [], []), BASE),
    ...changedNetworks(wanted, actual),
    ...changedIfaces(wanted, actual),
    ...removedDefault(wanted, actual),
  ];
  return [...new Set(fields)].sort();
}
