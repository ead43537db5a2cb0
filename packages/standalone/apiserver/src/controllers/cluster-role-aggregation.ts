// SPDX-License-Identifier: Apache-2.0
// Aggregates the rules of ClusterRoles. Source: Kubernetes "Aggregated ClusterRoles".
import { RBAC_GROUP } from "../auth/rbac/rbac.ts";
import { makeLabelMatcher } from "../meta/label-selector.ts";
import { equalJson, asList, printJson, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { WorkQueue } from "./work-queue.ts";

const BUCKET = `${RBAC_GROUP}/clusterroles`;

type Selector = Parameters<typeof makeLabelMatcher>[0];

function clusterRoles(deps: VerbDeps): readonly KubeObject[] {
  return deps.store.list({ bucket: BUCKET }).map((stored) => stored.view());
}

function isAggregate(role: KubeObject): boolean {
  return valueAt(role, "aggregationRule") !== undefined;
}

function aggregatedRules(role: KubeObject, allRoles: readonly KubeObject[]): readonly unknown[] {
  const selectors = asList(valueAt(role, "aggregationRule", "clusterRoleSelectors"));
  const matchers = selectors.map((selector) => makeLabelMatcher(selector as Selector));
  const rules = allRoles
    .filter(({ metadata }) => metadata.name !== role.metadata.name)
    .filter(({ metadata }) => matchers.some((matches) => matches(metadata.labels ?? {})))
    .flatMap((matchingRole) => asList(matchingRole["rules"]));
  return [...new Map(rules.map((rule) => [printJson(rule), rule])).values()];
}

async function aggregate(deps: VerbDeps, name: string): Promise<boolean> {
  const address = { bucket: BUCKET, namespace: "", name };
  return deps.store.write((transaction) => {
    const role = transaction.find(address)?.copy();
    if (role === undefined || !isAggregate(role)) {
      return false;
    }
    const rules = aggregatedRules(role, clusterRoles(deps));
    if (equalJson(asList(role["rules"]), rules)) {
      return false;
    }
    transaction.put(address, { ...role, rules });
    return true;
  });
}

function aggregateNames(deps: VerbDeps): readonly string[] {
  return clusterRoles(deps)
    .filter(isAggregate)
    .map(({ metadata }) => metadata.name);
}

/** Aggregates all ClusterRoles. Repeats the aggregation, because an aggregated role may select other aggregated roles. */
export async function aggregateClusterRoles(deps: VerbDeps): Promise<void> {
  const names = aggregateNames(deps);
  for (let depth = 0; depth < names.length; depth += 1) {
    const changes = await Promise.all(names.map((name) => aggregate(deps, name)));
    if (!changes.includes(true)) {
      return;
    }
  }
}

export function startClusterRoleAggregation(deps: VerbDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = async (name: string) => {
    await aggregate(deps, name);
  };
  const queue = new WorkQueue({ name: "clusterrole-aggregation", clock, logger, stop, work });
  const unsubscribe = store.subscribe((changes) => {
    if (changes.some(({ current }) => current.address.bucket === BUCKET)) {
      aggregateNames(deps).forEach((name) => {
        queue.add(name);
      });
    }
  });
  stop.addEventListener("abort", unsubscribe);
}
