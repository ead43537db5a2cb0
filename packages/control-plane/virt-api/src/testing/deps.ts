// SPDX-License-Identifier: Apache-2.0
// Dependencies of routes and admission for tests.
import { networkConfigOf } from "@patchbay/api";
import type { Store } from "@patchbay/core/interfaces";
import { KeyedMutex } from "@patchbay/base";
import { createSilentLogger } from "@patchbay/telemetry";
import { createMutationCache } from "@patchbay/kube";
import type { Deps } from "../deps.ts";

/** Builds dependencies. Members of a namespace's group may read its networks, and no other VM has a MAC. */
export function depsOn(store: Store, others: Partial<Deps> = {}): Deps {
  return {
    release: "v1.2.3",
    store,
    cachedReader: store,
    mutationCache: createMutationCache(),
    log: createSilentLogger(),
    mutex: new KeyedMutex(),
    randomBytes: (size) => new Uint8Array(size).fill(1),
    mayReadNetwork: ({ groups }, { namespace }) => Promise.resolve(groups.includes(namespace)),
    findPodNode: () => Promise.resolve(undefined),
    relayAuthority: () => Promise.resolve(undefined),
    sendToHandler: (node, _key, request) => Promise.resolve({ code: 200, body: { node, request } }),
    openHandlerStream: () => Promise.reject(new Error("there is no node")),
    screenshotRate: { tryProceed: () => 0 },
    changeRate: { proceed: () => Promise.resolve(true), tryProceed: () => 0 },
    takeScreenshot: () => Promise.reject(new Error("there is no node")),
    servesDataVolumes: () => Promise.resolve(true),
    servesResourceClaims: () => Promise.resolve(true),
    listMacOwners: () => [],
    segmentOf: (network) => network,
    hasGuest: () => false,
    listNetworkNames: () => [],
    findByLauncher: () => undefined,
    countDecision: () => undefined,
    networkConfig: () => networkConfigOf(undefined),
    configVersion: () => "7",
    evictionStrategy: () => "None",
    ...others,
  };
}
