// SPDX-License-Identifier: Apache-2.0
// What is there before anyone creates it: the standard namespaces.
import { NAMESPACE } from "../kinds/cluster/namespace.ts";
import { apiVersionOf, bucketOf } from "../kinds/kind.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { VerbDeps } from "../verbs/deps.ts";

const NAMES: readonly string[] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/** Makes the standard namespaces where they are missing. */
export async function makeStandardNamespaces(deps: VerbDeps): Promise<void> {
  await deps.store.write((transaction) => {
    for (const name of NAMES) {
      const address = { bucket: bucketOf(NAMESPACE), namespace: "", name };
      if (transaction.find(address) === undefined) {
        const namespace: KubeObject = {
          apiVersion: apiVersionOf(NAMESPACE),
          kind: NAMESPACE.kind,
          metadata: {
            name,
            uid: deps.random.uid(),
            creationTimestamp: rfc3339(deps.clock.now()),
          },
        };
        NAMESPACE.strategy.prepareCreate?.(namespace);
        transaction.put(address, namespace);
      }
    }
  });
}
