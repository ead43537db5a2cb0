// SPDX-License-Identifier: Apache-2.0
// The creation request of `kubectl apply`. Source: kubectl apply, --validate=strict.
import type { KubeObject } from "@patchbay/api/kubernetes";

const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
const NAMESPACE = "default";

interface ResourceList {
  readonly resources: readonly {
    readonly name: string;
    readonly kind: string;
    readonly namespaced: boolean;
  }[];
}

/** An object and its collection's path. */
interface Creation {
  readonly path: string;
  readonly body: object;
}

function resourceOf({ apiVersion, kind }: KubeObject, list: unknown) {
  // The discovery response; undefined while the kind is not served.
  const { resources } = (list ?? { resources: [] }) as ResourceList;
  const found = resources.find((one) => one.kind === kind && !one.name.includes("/"));
  if (found === undefined) throw new Error(`no resource of kind ${kind} in ${apiVersion}`);
  return found;
}

/** Stores the applied manifest, so that a later `kubectl apply` removes omitted fields. */
function applied({ metadata, ...object }: KubeObject): object {
  const text = JSON.stringify({ ...object, metadata });
  return {
    ...object,
    metadata: { ...metadata, annotations: { ...metadata.annotations, [LAST_APPLIED]: text } },
  };
}

/** How to create an object; `read` returns the server's object at a path. */
export function creationOf(object: KubeObject, read: (path: string) => unknown): Creation {
  const { apiVersion, metadata } = object;
  const group = `/${apiVersion.includes("/") ? "apis" : "api"}/${apiVersion}`;
  const { name, namespaced } = resourceOf(object, read(group));
  const { namespace = NAMESPACE } = metadata;
  const collection = namespaced ? `${group}/namespaces/${namespace}/${name}` : `${group}/${name}`;
  return { path: `${collection}?fieldValidation=Strict`, body: applied(object) };
}
