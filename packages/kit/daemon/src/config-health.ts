// SPDX-License-Identifier: Apache-2.0
// By which configuration does a service go? What KubeVirt's services answer at /healthz, for clients that have changed
// the KubeVirt object and wait until all know it. Pure. Source: KubeVirt pkg/healthz.

/** Whether the service lives, and the resourceVersion of the KubeVirt object that it knows; "" without one. */
export interface ConfigHealth {
  readonly code: 200 | 500;
  readonly body: {
    readonly apiserver: { readonly connectivity: "ok" | "failed" };
    readonly "config-resource-version": string;
  };
}

/** The answer. */
export function configHealth(isLive: boolean, version: string): ConfigHealth {
  const connectivity = isLive ? "ok" : "failed";
  const body = { apiserver: { connectivity }, "config-resource-version": version } as const;
  return { code: isLive ? 200 : 500, body };
}
