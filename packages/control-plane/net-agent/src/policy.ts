// SPDX-License-Identifier: Apache-2.0
// Policy for NetworkAttachmentDefinitions of tenants, from flags and the KubeVirt object.
import type { ClusterTenantPolicy, KubeVirt } from "@patchbay/api";
import {
  DEFAULT_POLICY,
  choosePolicy,
  describePolicySetting,
  type AgentMode,
  type TenantPolicy,
} from "@patchbay/core/nics";
import { isEqual, type Logger } from "@patchbay/base";
import type { EventRecorder } from "@patchbay/kube";
import type { Cache } from "@patchbay/core/interfaces";

export interface CurrentPolicy {
  current(): TenantPolicy;
  readonly isEnforced: boolean;
  /**
   * Returns text to append to an error message. The text names the field of the KubeVirt object in which the policy can be set. It is empty
   * if the object does not exist, or if it is outside Patchbay's namespace and contains no policy.
   */
  describeSetting(): string;
  onChange(listener: () => void): void;
}

interface PolicyDeps {
  readonly flags: ClusterTenantPolicy;
  readonly isEnforced: boolean;
  readonly kubevirts: Cache<KubeVirt>;
  readonly events: EventRecorder;
  readonly log: Logger;
}

class WatchedPolicy implements CurrentPolicy {
  readonly #deps: PolicyDeps;
  readonly #listeners: (() => void)[] = [];
  #policy: TenantPolicy | undefined;

  constructor(deps: PolicyDeps) {
    this.#deps = deps;
    deps.kubevirts.onChange((change) => {
      const isStatusChange =
        change.kind === "updated" && isEqual(change.previous.spec, change.current.spec);
      if (!isStatusChange) this.#update();
    });
  }

  get isEnforced(): boolean {
    return this.#deps.isEnforced;
  }

  current(): TenantPolicy {
    return this.#policy ?? { ...DEFAULT_POLICY, ...this.#deps.flags };
  }

  describeSetting(): string {
    return describePolicySetting(this.#deps.kubevirts.list()[0]);
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  #update(): void {
    const { flags, kubevirts, log } = this.#deps;
    // Like other components, uses the first KubeVirt object as the cluster's configuration.
    const [kubevirt] = kubevirts.list();
    const { policy, causes } = choosePolicy({ flags, kubevirt, previous: this.#policy });
    if (kubevirt !== undefined && causes.length > 0) {
      this.#reportInvalid(
        kubevirt,
        causes.map(({ field, message }) => `${field}: ${message}`).join("; "),
      );
    }
    const hasChanged = !isEqual(policy, this.current());
    this.#policy = policy;
    if (!hasChanged) return;
    log.info("tenant policy changed", { policy: JSON.stringify(policy) });
    for (const listener of this.#listeners) listener();
  }

  #reportInvalid(kubevirt: KubeVirt, causes: string): void {
    const { events, log } = this.#deps;
    const consequence =
      this.#policy === undefined
        ? "the invalid list allows nothing until it is corrected"
        : "the previous policy stays in force until it is corrected";
    log.warn("tenant policy is invalid", { reason: `${causes}; ${consequence}` });
    const message = `${causes}; ${consequence}`;
    events.record(kubevirt, { type: "Warning", reason: "TenantPolicyInvalid", message });
  }
}

export function followPolicy(deps: PolicyDeps): CurrentPolicy {
  return new WatchedPolicy(deps);
}

export type PolicyMode = "auto" | "warn" | "enforce";

/** Returns whether violations are rejected. In policy mode auto, they are rejected unless Multus attaches the networks. */
export function isPolicyEnforced({
  tenantPolicyMode,
  mode,
  cniSocket,
}: {
  readonly tenantPolicyMode: PolicyMode;
  readonly mode: AgentMode;
  readonly cniSocket?: string;
}): boolean {
  if (tenantPolicyMode !== "auto") return tenantPolicyMode === "enforce";
  return mode === "alone" || cniSocket !== undefined;
}
