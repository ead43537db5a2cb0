// SPDX-License-Identifier: Apache-2.0
// Whether another VM has the same MAC on the same network, or on another network of the same bridge.
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
  /** It has no guest, and starts none by itself: a MAC in use is reported, and refused at the start. */
  readonly isHalted?: boolean;
  /** The stored object was halted, so this edit may start it. */
  readonly wasHalted?: boolean;
}

type TwinDeps = Pick<Deps, "listMacOwners" | "segmentOf">;

/** VMs of other namespaces are not named, because the user may not be allowed to read them. */
function nameTwin(twin: MacTwin, namespace: string): string {
  return twin.owner.startsWith(`${namespace}/`) ? `VM ${twin.owner}` : "a VM of another namespace";
}

function sayTwin(twin: MacTwin, { namespace }: TwinQuestion): string {
  const where = twin.isOtherNetwork ? "the bridge of network" : "network";
  return `MAC address ${twin.mac} is in use on ${where} ${twin.network} by ${nameTwin(twin, namespace)}`;
}

function fieldOf({ index }: MacTwin, { base }: TwinQuestion): string {
  return `${base}.domain.devices.interfaces[${String(index)}].macAddress`;
}

function macIn(spec: VmiSpec | undefined, name: string): string {
  const iface = spec && findByName(ifacesOf(spec), name);
  return normalizeMac(iface?.macAddress ?? "");
}

/** The twins of MACs that are new, or that are about to be used for the first time. */
function findNewTwins(deps: TwinDeps, question: TwinQuestion): readonly MacTwin[] {
  const { spec, old, isHalted = false, wasHalted = false } = question;
  const ifaces = ifacesOf(spec);
  const isStarting = wasHalted && !isHalted;
  const isNew = ifaces.map(({ name }) => isStarting || macIn(old, name) !== macIn(spec, name));
  if (!isNew.includes(true)) return [];
  const macs = ifaces.map(({ macAddress = "" }) => normalizeMac(macAddress));
  return findMacTwins(question, deps.listMacOwners(macs), deps.segmentOf).filter(
    ({ index }) => isNew[index] === true,
  );
}

/** One cause for each new MAC of a VM that is to run which another running VM has. */
export function twinCauses(deps: TwinDeps, question: TwinQuestion): readonly Cause[] {
  if (question.isHalted === true) return [];
  return findNewTwins(deps, question)
    .filter(({ isOwnerHalted }) => !isOwnerHalted)
    .map((twin) => ({
      reason: "FieldValueDuplicate",
      field: fieldOf(twin, question),
      message: sayTwin(twin, question),
    }));
}

/** One warning for each new MAC that two VMs have of which at most one runs. */
export function twinWarnings(deps: TwinDeps, question: TwinQuestion): readonly string[] {
  return findNewTwins(deps, question)
    .filter(({ isOwnerHalted }) => isOwnerHalted || question.isHalted === true)
    .map(
      (twin) =>
        `${fieldOf(twin, question)}: ${sayTwin(twin, question)}; only one of the two VMs can run at a time`,
    );
}
