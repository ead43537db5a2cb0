// SPDX-License-Identifier: Apache-2.0
// What may definitions of tenants name now? The cluster's configuration may change it while the agent runs.
import type { ClusterTenantPolicy, KubeVirt } from "@patchbay/api";
import {
  DEFAULT_POLICY,
  isEqual,
  policyInForce,
  policySettingOf,
  type AgentMode,
  type TenantPolicy,
} from "@patchbay/core";
import type { EventRecorder } from "@patchbay/kube";
import type { Cache, Logger } from "@patchbay/core/ports";

/** The policy that counts. */
export interface PolicyNow {
  current(): TenantPolicy;
  /** Whether a definition that names what it may not is refused; otherwise it is attached with a warning. */
  readonly isEnforced: boolean;
  /** End of an advice that names a flag: the field that sets the policy for the cluster. Empty if no field does. */
  setting(): string;
  /** Calls `listener` after each change from now on. */
  onChange(listener: () => void): void;
}

/** Where it comes from, and who is told of what cannot be understood. */
interface PolicyDeps {
  /** Lists that the node's flags name. */
  readonly flags: ClusterTenantPolicy;
  readonly isEnforced: boolean;
  readonly kubevirts: Cache<KubeVirt>;
  readonly events: EventRecorder;
  readonly log: Logger;
}

class FollowedPolicy implements PolicyNow {
  readonly #deps: PolicyDeps;
  readonly #listeners: (() => void)[] = [];
  #policy: TenantPolicy | undefined;

  constructor(deps: PolicyDeps) {
    this.#deps = deps;
    deps.kubevirts.onChange((change) => {
      const isOfStatus =
        change.kind === "updated" && isEqual(change.previous.spec, change.current.spec);
      if (!isOfStatus) this.#look();
    });
  }

  get isEnforced(): boolean {
    return this.#deps.isEnforced;
  }

  current(): TenantPolicy {
    return this.#policy ?? { ...DEFAULT_POLICY, ...this.#deps.flags };
  }

  setting(): string {
    return policySettingOf(this.#deps.kubevirts.list()[0]);
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  #look(): void {
    const { flags, kubevirts, log } = this.#deps;
    // The cluster's configuration is the first of them, as for the others.
    const [kubevirt] = kubevirts.list();
    const { policy, causes } = policyInForce({ flags, kubevirt, before: this.#policy });
    if (kubevirt !== undefined && causes.length > 0) {
      this.#tell(kubevirt, causes.map(({ field, message }) => `${field}: ${message}`).join("; "));
    }
    const isNews = !isEqual(policy, this.current());
    this.#policy = policy;
    if (!isNews) return;
    log.info("tenant policy changed", { policy: JSON.stringify(policy) });
    for (const listener of this.#listeners) listener();
  }

  #tell(kubevirt: KubeVirt, causes: string): void {
    const { events, log } = this.#deps;
    const stays =
      this.#policy === undefined
        ? "such a list allows nothing until it is corrected"
        : "the policy of before stays until it is corrected";
    log.warn("tenant policy not understood", { reason: `${causes}; ${stays}` });
    const message = `${causes}; ${stays}`;
    events.record(kubevirt, { type: "Warning", reason: "TenantPolicyInvalid", message });
  }
}

/** Follows the cluster's configuration from now on. */
export function followPolicy(deps: PolicyDeps): PolicyNow {
  return new FollowedPolicy(deps);
}

/** Whether and how the policy is applied, by a flag. */
export type PolicyMode = "auto" | "warn" | "enforce";

/**
 * Whether the policy is enforced. Beside Multus it is no boundary, because Multus attaches in the next pod what this agent
 * refuses; it is one where the agent makes all attachments.
 */
export function enforcesPolicy({
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
