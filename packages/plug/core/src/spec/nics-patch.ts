// SPDX-License-Identifier: Apache-2.0
// A change of networks and ifaces as a JSON patch that loses nobody's edit.
import type { KubeObject, VmiSpec, JsonPatchOperation } from "@patchbay/api";
import { versionTest } from "../patch.ts";
import type { Nics } from "./nics.ts";

/** Where in which object both lists are, and what was read there. */
interface NicsPlace {
  readonly object: KubeObject;
  /** Pointer to the specification, for example `/spec`. */
  readonly base: string;
  /** The specification as it was read. */
  readonly spec: VmiSpec;
}

/** The operations that put `to` into the specification, if the lists are still as they were read. */
export function nicsPatch(
  { object, base, spec }: NicsPlace,
  to: Nics,
): readonly JsonPatchOperation[] {
  const { devices } = spec.domain;
  const networksPath = `${base}/networks`;
  const devicesPath = `${base}/domain/devices`;
  const lists = [
    { path: networksPath, value: spec.networks },
    { path: `${devicesPath}/interfaces`, value: devices?.interfaces },
  ];
  const tests = lists.flatMap(({ path, value }): readonly JsonPatchOperation[] =>
    value === undefined ? [] : [{ op: "test", path, value }],
  );
  return [
    ...(tests.length < lists.length ? [versionTest(object)] : []),
    ...tests,
    { op: "add", path: networksPath, value: to.networks },
    devices === undefined
      ? { op: "add", path: devicesPath, value: { interfaces: to.ifaces } }
      : { op: "add", path: `${devicesPath}/interfaces`, value: to.ifaces },
  ];
}
