// SPDX-License-Identifier: Apache-2.0
// What of a pod is built for nobody? It is refused by name: left out, the pod would do something else than was asked.
import type { Container, Pod } from "@patchbay/api";
import { problem, type PodProblem } from "./problem.ts";

const NOT_BUILT = "is not supported";

function mountProblems({ volumeMounts = [] }: Container, at: string): readonly PodProblem[] {
  return volumeMounts.flatMap(({ name, mountPath, subPath = "", subPathExpr = "" }) => {
    const field = `${at}.volumeMounts[${name}]`;
    return [
      ...problem(subPath !== "", `${field}.subPath`, NOT_BUILT),
      ...problem(subPathExpr !== "", `${field}.subPathExpr`, NOT_BUILT),
      ...problem(!mountPath.startsWith("/"), `${field}.mountPath`, "must be absolute"),
    ];
  });
}

function containerProblems(container: Container, at: string): readonly PodProblem[] {
  const { lifecycle, restartPolicy, volumeDevices = [] } = container;
  return [
    ...problem(lifecycle?.postStart !== undefined, `${at}.lifecycle.postStart`, NOT_BUILT),
    ...problem(lifecycle?.preStop !== undefined, `${at}.lifecycle.preStop`, NOT_BUILT),
    ...problem(restartPolicy !== undefined, `${at}.restartPolicy`, NOT_BUILT),
    ...mountProblems(container, at),
    ...volumeDevices.flatMap(({ name, devicePath }) => {
      const field = `${at}.volumeDevices[${name}].devicePath`;
      return problem(!devicePath.startsWith("/"), field, "must be absolute");
    }),
  ];
}

/** What the pod asks for and no node of this kind does, each with its field. */
export function unsupportedProblems({ spec }: Pod): readonly PodProblem[] {
  const { initContainers = [], containers } = spec;
  return [
    ...initContainers.flatMap((one) => containerProblems(one, `spec.initContainers[${one.name}]`)),
    ...containers.flatMap((one) => containerProblems(one, `spec.containers[${one.name}]`)),
  ];
}
