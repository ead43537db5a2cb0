// SPDX-License-Identifier: Apache-2.0
// What of a pod is built for nobody? It is refused by name: left out, the pod would do something else than was asked.
import type { Container, Pod, PodVolume } from "@patchbay/api";
import { problem, type PodProblem } from "./problem.ts";

const NOT_BUILT = "is not supported";

/** One name: a key of a ConfigMap. */
const KEY = /^[\w-][\w.-]*$/;
const ONLY_KEYS = "is not supported, but for a key of a configMap";

/**
 * A file that only this node writes cannot be made a link by a container meanwhile. Elsewhere whoever has the volume
 * could lead the mount to a file of the node's.
 */
function isKey(subPath: string, volume: string, volumes: readonly PodVolume[]): boolean {
  const isShown = volumes.some(({ name, configMap }) => name === volume && configMap !== undefined);
  return isShown && KEY.test(subPath);
}

function mountProblems(
  { volumeMounts = [] }: Container,
  at: string,
  volumes: readonly PodVolume[],
): readonly PodProblem[] {
  return volumeMounts.flatMap(({ name, mountPath, subPath = "", subPathExpr = "" }) => {
    const field = `${at}.volumeMounts[${name}]`;
    const isRefused = subPath !== "" && !isKey(subPath, name, volumes);
    return [
      ...problem(isRefused, `${field}.subPath`, ONLY_KEYS),
      ...problem(subPathExpr !== "", `${field}.subPathExpr`, NOT_BUILT),
      ...problem(!mountPath.startsWith("/"), `${field}.mountPath`, "must be absolute"),
    ];
  });
}

function containerProblems(
  container: Container,
  at: string,
  volumes: readonly PodVolume[],
): readonly PodProblem[] {
  const { lifecycle, restartPolicy, volumeDevices = [] } = container;
  return [
    ...problem(lifecycle?.postStart !== undefined, `${at}.lifecycle.postStart`, NOT_BUILT),
    ...problem(lifecycle?.preStop !== undefined, `${at}.lifecycle.preStop`, NOT_BUILT),
    ...problem(restartPolicy !== undefined, `${at}.restartPolicy`, NOT_BUILT),
    ...mountProblems(container, at, volumes),
    ...volumeDevices.flatMap(({ name, devicePath }) => {
      const field = `${at}.volumeDevices[${name}].devicePath`;
      return problem(!devicePath.startsWith("/"), field, "must be absolute");
    }),
  ];
}

/** What the pod asks for and no node of this kind does, each with its field. */
export function unsupportedProblems({ spec }: Pod): readonly PodProblem[] {
  const { initContainers = [], containers, volumes = [] } = spec;
  const problemsOf = (all: readonly Container[], of: string): readonly PodProblem[] =>
    all.flatMap((one) => containerProblems(one, `spec.${of}[${one.name}]`, volumes));
  return [...problemsOf(initContainers, "initContainers"), ...problemsOf(containers, "containers")];
}
