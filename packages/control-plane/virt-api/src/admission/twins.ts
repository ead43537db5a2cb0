// SPDX-License-Identifier: Apache-2.0
// Detects MACs that another VM uses on the same network or bridge.
import { normalizeMac, type Cause, type VmiSpec } from "@patchbay/api";
import {
  findByName,
  findMacTwins,
  findOwnMacTwins,
  ifacesOf,
  nameMacOwner,
  type MacTwin,
} from "@patchbay/core/nics";
import type { Deps } from "../deps.ts";

export interface TwinCheck {
  readonly namespace: string;
  readonly name: string;
  readonly spec: VmiSpec;
  /** Stored specification: an existing MAC is not rejected later. */
  readonly old: VmiSpec | undefined;
  readonly base: string;
  /** The VM has no guest and does not start automatically. A MAC in use is only a warning, and rejected at the start. */
  readonly isHalted?: boolean;
  /** The stored VM was halted, so this update may start it. */
  readonly wasHalted?: boolean;
}

type TwinDeps = Pick<Deps, "listMacOwners" | "segmentOf">;

function describeTwin(twin: MacTwin, { namespace }: TwinCheck): string {
  const where = twin.isOtherNetwork ? "the bridge of network" : "network";
  return `MAC address ${twin.mac} is in use on ${where} ${twin.network} by ${nameMacOwner(twin.owner, namespace)}`;
}

function macPath({ index }: MacTwin, { base }: TwinCheck): string {
  return `${base}.domain.devices.interfaces[${String(index)}].macAddress`;
}

function findMac(spec: VmiSpec | undefined, name: string): string {
  const iface = spec && findByName(ifacesOf(spec), name);
  return normalizeMac(iface?.macAddress ?? "");
}

/** Returns for each interface whether its MAC is new or used for the first time. */
function listNewMacs({ spec, old, isHalted, wasHalted }: TwinCheck): readonly boolean[] {
  const isStarting = wasHalted === true && isHalted !== true;
  return ifacesOf(spec).map(({ name }) => isStarting || findMac(old, name) !== findMac(spec, name));
}

function findNewTwins(deps: TwinDeps, check: TwinCheck): readonly MacTwin[] {
  const isNew = listNewMacs(check);
  if (!isNew.includes(true)) return [];
  const macs = ifacesOf(check.spec).map(({ macAddress = "" }) => normalizeMac(macAddress));
  return findMacTwins(check, deps.listMacOwners(macs), deps.segmentOf).filter(
    ({ index }) => isNew[index] === true,
  );
}

export function listTwinCauses(deps: TwinDeps, check: TwinCheck): readonly Cause[] {
  if (check.isHalted === true) return [];
  return findNewTwins(deps, check)
    .filter(({ isOwnerHalted }) => !isOwnerHalted)
    .map((twin) => ({
      reason: "FieldValueDuplicate",
      field: macPath(twin, check),
      message: describeTwin(twin, check),
    }));
}

/** Ports of a bond share a MAC, possibly on one bridge, so this is only a warning. Any two other NICs would receive each other's frames. */
function listOwnTwinWarnings(deps: TwinDeps, check: TwinCheck): readonly string[] {
  const { spec, base } = check;
  const isNew = listNewMacs(check);
  return findOwnMacTwins(check, deps.segmentOf)
    .filter(({ index, earlier }) => isNew[index] === true || isNew[earlier] === true)
    .map(({ index, earlier, mac, networks }) => {
      const field = `${base}.domain.devices.interfaces[${String(index)}].macAddress`;
      const name = ifacesOf(spec)[earlier]?.name ?? "";
      return `${field}: MAC address ${mac} is that of interface '${name}' too, and networks ${networks.join(" and ")} have one bridge: frames reach one of the two at a time, so it is useful for ports of a bond only`;
    });
}

/** Reports new MACs that two VMs share of which at most one runs, and MACs that one VM uses twice on a bridge. */
export function listTwinWarnings(deps: TwinDeps, check: TwinCheck): readonly string[] {
  const vmWarnings = findNewTwins(deps, check)
    .filter(({ isOwnerHalted }) => isOwnerHalted || check.isHalted === true)
    .map(
      (twin) =>
        `${macPath(twin, check)}: ${describeTwin(twin, check)}; only one of the two VMs can run at a time`,
    );
  return [...vmWarnings, ...listOwnTwinWarnings(deps, check)];
}
