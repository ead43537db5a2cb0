// SPDX-License-Identifier: Apache-2.0
// A change of networks and ifaces as a JSON patch that loses nobody's edit.
import type { VmiSpec } from "@patchbay/api";
import type { Nics } from "./vmi-spec.ts";

/** One operation of a JSON patch. Source: RFC 6902 section 4. */
export type PatchOperation = {
  readonly op: "add" | "replace" | "test";
  readonly path: string;
  readonly value: unknown;
};

/** The operations that put `to` below `base` (for example `/spec`), if the lists are still as in `spec`. */
export function nicsPatch(base: string, spec: VmiSpec, to: Nics): readonly PatchOperation[] {
  const { devices } = spec.domain;
  const networksPath = `${base}/networks`;
  const devicesPath = `${base}/domain/devices`;
  const tests: readonly PatchOperation[] = [
    ...(spec.networks === undefined
      ? []
      : [{ op: "test", path: networksPath, value: spec.networks } as const]),
    ...(devices?.interfaces === undefined
      ? []
      : [{ op: "test", path: `${devicesPath}/interfaces`, value: devices.interfaces } as const]),
  ];
  return [
    ...tests,
    { op: "add", path: networksPath, value: to.networks },
    ...(devices === undefined ? [{ op: "add", path: devicesPath, value: {} } as const] : []),
    { op: "add", path: `${devicesPath}/interfaces`, value: to.ifaces },
  ];
}
