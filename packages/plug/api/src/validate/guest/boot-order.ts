// SPDX-License-Identifier: Apache-2.0
// In which order disks and NICs are tried at boot: one order over both. Source: KubeVirt validateBootOrder.
import type { Cause } from "../../kinds/kubernetes/meta.ts";
import { isAbsent } from "../../kinds/network.ts";
import { diskPath, ifacePath, type JudgedSpec, type Rule } from "../rule.ts";

interface Bootable {
  readonly path: string;
  readonly order: number;
}

function bootablesOf({ disks, ifaces, base }: JudgedSpec): readonly Bootable[] {
  const of = (entry: { readonly bootOrder?: number }, path: string): readonly Bootable[] =>
    entry.bootOrder === undefined ? [] : [{ path, order: entry.bootOrder }];
  return [
    ...disks.flatMap((disk, index) => of(disk, diskPath(base, index))),
    ...ifaces.flatMap((iface, index) => (isAbsent(iface) ? [] : of(iface, ifacePath(base, index)))),
  ];
}

const startsAtOne: Rule = (spec) =>
  bootablesOf(spec)
    .filter(({ order }) => order < 1)
    .map(({ path }) => ({
      reason: "FieldValueInvalid",
      field: `${path}.bootOrder`,
      message: `${path} must have a boot order > 0, if supplied`,
    }));

const isUnique: Rule = (spec) => {
  const all = bootablesOf(spec);
  return all.flatMap(({ path, order }, index): readonly Cause[] => {
    if (all.findIndex((other) => other.order === order) === index) return [];
    const field = `${path}.bootOrder`;
    const message = `Boot order for ${field} already set for a different device.`;
    return [{ reason: "FieldValueInvalid", field, message }];
  });
};

/** Judges the order of boot devices. */
export const BOOT_ORDER_RULES: readonly Rule[] = [startsAtOne, isUnique];
