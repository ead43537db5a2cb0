// SPDX-License-Identifier: Apache-2.0
// Whether another VM has the same MAC on the same network.
import { normalizeMac, type Cause, type VmiSpec } from "@patchbay/api";
import { findByName, findMacTwins, ifacesOf, type MacTwin } from "@patchbay/core";
import type { Deps } from "../deps.ts";

/** The object that is judged. */
export interface TwinQuestion {
  readonly namespace: string;
  readonly name: string;
  readonly spec: VmiSpec;
  /** What was stored before: a MAC that was there already is not refused later. */
  readonly old: VmiSpec | undefined;
  /** Path of the VMI specification. */
  readonly base: string;
}

/** Another namespace's VMs are not named: who asks may not be allowed to know them. */
function nameTwin(twin: MacTwin, namespace: string): string {
  return twin.owner.startsWith(`${namespace}/`) ? `VM ${twin.owner}` : "a VM of another namespace";
}

/** One cause for each new MAC that another VM has on the same network. */
export function twinCauses(
  deps: Pick<Deps, "listMacOwners">,
  question: TwinQuestion,
): readonly Cause[] {
  const { spec, old, base } = question;
  const isNew = (index: number): boolean => {
    const iface = ifacesOf(spec)[index];
    const before = old === undefined ? undefined : findByName(ifacesOf(old), iface?.name ?? "");
    return before?.macAddress !== iface?.macAddress;
  };
  if (!ifacesOf(spec).some((_iface, index) => isNew(index))) return [];
  const macs = ifacesOf(spec).map(({ macAddress = "" }) => normalizeMac(macAddress));
  return findMacTwins(question, deps.listMacOwners(macs))
    .filter(({ index }) => isNew(index))
    .map((twin) => ({
      reason: "FieldValueDuplicate",
      field: `${base}.domain.devices.interfaces[${String(twin.index)}].macAddress`,
      message: `MAC address ${twin.mac} is in use on network ${twin.network} by ${nameTwin(twin, question.namespace)}`,
    }));
}
