// SPDX-License-Identifier: Apache-2.0
import type { KubeObject, VmiSpec, JsonPatchOperation } from "@patchbay/api";
import { versionTest } from "../status/patch.ts";
import type { Nics } from "./nics.ts";

interface NicsSource {
  readonly object: KubeObject;
  /** JSON pointer to the spec, for example `/spec`. */
  readonly base: string;
  readonly spec: VmiSpec;
}

/** Builds a patch that fails if either list has changed since it was read. */
export function nicsPatch(
  { object, base, spec }: NicsSource,
  wanted: Nics,
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
    { op: "add", path: networksPath, value: wanted.networks },
    devices === undefined
      ? { op: "add", path: devicesPath, value: { interfaces: wanted.ifaces } }
      : { op: "add", path: `${devicesPath}/interfaces`, value: wanted.ifaces },
  ];
}
