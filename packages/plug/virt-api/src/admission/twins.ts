// SPDX-License-Identifier: Apache-2.0
// Whether another VM has the same MAC on the same network, or on another network of the same bridge.
import { normalizeMac, type Cause, type VmiSpec } from "@patchbay/api";
import {
  findByName,
  findMacTwins,
  findOwnMacTwins,
  ifacesOf,
  nameMacOwner,
  type MacTwin,
} from "@patchbay/core";
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

function sayTwin(twin: MacTwin, { namespace }: TwinQuestion): string {
  const where = twin.isOtherNetwork ? "the bridge of network" : "network";
  return `MAC address ${twin.mac} is in use on ${where} ${twin.network} by ${nameMacOwner(twin.owner, namespace)}`;
}

function fieldOf({ index }: MacTwin, { base }: TwinQuestion): string {
  return `${base}.domain.devices.interfaces[${String(index)}].macAddress`;
}

function macIn(spec: VmiSpec | undefined, name: string): string {
  const iface = spec && findByName(ifacesOf(spec), name);
  return normalizeMac(iface?.macAddress ?? "");
}

/** Of each iface whether its MAC is new, or is about to be used for the first time. */
function listNewMacs({ spec, old, isHalted, wasHalted }: TwinQuestion): readonly boolean[] {
  const isStarting = wasHalted === true && isHalted !== true;
  return ifacesOf(spec).map(({ name }) => isStarting || macIn(old, name) !== macIn(spec, name));
}

/** The twins of those MACs. */
function findNewTwins(deps: TwinDeps, question: TwinQuestion): readonly MacTwin[] {
  const isNew = listNewMacs(question);
  if (!isNew.includes(true)) return [];
  const macs = ifacesOf(question.spec).map(({ macAddress = "" }) => normalizeMac(macAddress));
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

/**
 * The ports of a guest's bond have one MAC and may lead to one bridge, so this is no error. Any two other NICs take frames
 * from each other.
 */
function ownTwinWarnings(deps: TwinDeps, question: TwinQuestion): readonly string[] {
  const { spec, base } = question;
  const isNew = listNewMacs(question);
  return findOwnMacTwins(question, deps.segmentOf)
    .filter(({ index, earlier }) => isNew[index] === true || isNew[earlier] === true)
    .map(({ index, earlier, mac, networks }) => {
      const field = `${base}.domain.devices.interfaces[${String(index)}].macAddress`;
      const name = ifacesOf(spec)[earlier]?.name ?? "";
      return `${field}: MAC address ${mac} is that of interface '${name}' too, and networks ${networks.join(" and ")} have one bridge: frames reach one of the two at a time, so it is useful for ports of a bond only`;
    });
}

/** One warning for each new MAC that two VMs have of which at most one runs, or that one VM has twice on a bridge. */
export function twinWarnings(deps: TwinDeps, question: TwinQuestion): readonly string[] {
  const ofVms = findNewTwins(deps, question)
    .filter(({ isOwnerHalted }) => isOwnerHalted || question.isHalted === true)
    .map(
      (twin) =>
        `${fieldOf(twin, question)}: ${sayTwin(twin, question)}; only one of the two VMs can run at a time`,
    );
  return [...ofVms, ...ownTwinWarnings(deps, question)];
}
