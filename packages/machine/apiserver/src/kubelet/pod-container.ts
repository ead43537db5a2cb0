// SPDX-License-Identifier: Apache-2.0
// Which container of a pod is meant? Source: Kubernetes registry core/pod, validateContainer.
import { badRequest } from "../meta/status.ts";
import { listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";

function namesOf(pod: KubeObject, list: string): readonly string[] {
  return listOf(valueAt(pod, "spec", list)).map((container) => textAt(container, "name"));
}

function ambiguous(pod: KubeObject): string {
  const containers = namesOf(pod, "containers");
  const initial = namesOf(pod, "initContainers");
  const first = `a container name must be specified for pod ${pod.metadata.name}, choose one of: [${containers.join(" ")}]`;
  return initial.length === 0
    ? first
    : `${first} or one of the init containers: [${initial.join(" ")}]`;
}

/** The name of the container; `asked` is empty where none was named. Throws a StatusError 400. */
export function chooseContainer(pod: KubeObject, asked: string): string {
  const containers = namesOf(pod, "containers");
  if (asked === "") {
    const [only] = containers;
    if (only === undefined || containers.length > 1) {
      throw badRequest(ambiguous(pod));
    }
    return only;
  }
  const all = [...containers, ...namesOf(pod, "initContainers")];
  if (!all.includes(asked)) {
    throw badRequest(`container ${asked} is not valid for pod ${pod.metadata.name}`);
  }
  return asked;
}
