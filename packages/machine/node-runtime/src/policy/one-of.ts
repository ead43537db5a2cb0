// SPDX-License-Identifier: Apache-2.0
// Where does a pod name two things of which only one can be meant? It is refused: whoever looks at the one would not see
// the other. The embedded API server lets no such pod in; others may, and ours did.
import type { Container, Pod, PodVolume, Probe } from "@patchbay/api";
import { problem, type PodProblem } from "./problem.ts";

const HANDLERS = [
  "exec",
  "httpGet",
  "tcpSocket",
  "grpc",
] as const satisfies readonly (keyof Probe)[];

/** What is given, whether it is known here or not; a server may fill in null for what is not. */
function givenIn(fields: object, except: readonly string[] = []): readonly string[] {
  return Object.entries(fields)
    .filter(([key, value]) => value !== undefined && value !== null && !except.includes(key))
    .map(([key]) => key);
}

function atMostOne(given: readonly string[], field: string): readonly PodProblem[] {
  return problem(given.length > 1, field, `must be one of ${given.join(", ")}`);
}

function volumeProblems(volume: PodVolume): readonly PodProblem[] {
  const at = `spec.volumes[${volume.name}]`;
  const sources = volume.projected?.sources ?? [];
  const shown = [volume, ...sources].flatMap(({ downwardAPI }) => downwardAPI?.items ?? []);
  return [
    ...atMostOne(givenIn(volume, ["name"]), at),
    ...sources.flatMap((source, index) =>
      atMostOne(givenIn(source), `${at}.projected.sources[${String(index)}]`),
    ),
    ...shown.flatMap((item) => atMostOne(givenIn(item, ["path", "mode"]), `${at}.downwardAPI`)),
  ];
}

function containerProblems(container: Container, at: string): readonly PodProblem[] {
  const { env = [], envFrom = [], livenessProbe, readinessProbe, startupProbe } = container;
  const probes = Object.entries({ livenessProbe, readinessProbe, startupProbe });
  return [
    ...env.flatMap(({ name, valueFrom, value = "" }) => {
      const given = givenIn(valueFrom ?? {});
      const all = value === "" || given.length === 0 ? given : ["value", ...given];
      return atMostOne(all, `${at}.env[${name}]`);
    }),
    ...envFrom.flatMap((from, index) =>
      atMostOne(givenIn(from, ["prefix"]), `${at}.envFrom[${String(index)}]`),
    ),
    ...probes.flatMap(([name, probe]) => {
      const given = givenIn(probe ?? {}).filter((key) => HANDLERS.some((one) => one === key));
      return atMostOne(given, `${at}.${name}`);
    }),
  ];
}

/** What of the pod could be two things, each with its field. */
export function oneOfProblems({ spec }: Pod): readonly PodProblem[] {
  const { initContainers = [], containers, volumes = [] } = spec;
  return [
    ...volumes.flatMap(volumeProblems),
    ...initContainers.flatMap((one) => containerProblems(one, `spec.initContainers[${one.name}]`)),
    ...containers.flatMap((one) => containerProblems(one, `spec.containers[${one.name}]`)),
  ];
}
