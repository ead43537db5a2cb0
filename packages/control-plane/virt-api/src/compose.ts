// SPDX-License-Identifier: Apache-2.0
import {
  type ResourceType,
  configVersionOf,
  DATA_VOLUMES,
  RESOURCE_CLAIMS,
  evictionStrategyOf,
  networkConfigOf,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import {
  isAppError,
  messageOf,
  type Logger,
  KeyedMutex,
  type Rate,
  RateLimiter,
} from "@patchbay/base";
import { VERSION } from "@patchbay/base/version";
import {
  type KubeClient,
  createCachedReader,
  createMutationCache,
  waitForCaches,
} from "@patchbay/kube";

import { randomBytes } from "node:crypto";

import {
  certificateInFiles,
  ClientAuthority,
  startServer,
  trustInFile,
  type DaemonContext,
  type UpgradeListener,
} from "@patchbay/daemon";
import { createFiles } from "@patchbay/os";
import { createDecisionCounter } from "./admission/review.ts";
import {
  followFrontProxy,
  manageOwnCertificates,
  type OwnCertificates,
} from "./certificates/cluster.ts";
import type { ReadAuthority } from "./certificates/secret.ts";
import {
  findByPods,
  type FindHandler,
  createSendToHandler,
  type HandlerAccess,
  createOpenHandlerStream,
} from "./handlers/client.ts";
import { createFileCredentials } from "./handlers/credentials.ts";
import { CHANGE_BURST, createApp, type Callers, countRequests } from "./http/app.ts";
import {
  createCaches,
  findByLauncher,
  findSegment,
  hasGuest,
  listCachedKinds,
  listMacOwners,
  type Caches,
} from "./caches.ts";
import type { Flags } from "./config.ts";
import type { Deps } from "./deps.ts";
import { createAccessReview } from "./networks.ts";
import { createTakeScreenshot, SCREENSHOT_RATE } from "./screen/screenshot.ts";
import { ActiveStreams } from "./streams/active.ts";
import { serveStreams } from "./streams/serve-streams.ts";
import { createPodNodeLookup } from "./http/calls.ts";

/** Time limit of a discovery request, in milliseconds. The limit is short, because a user waits for the response. */
const DISCOVERY_TIMEOUT_MS = 2_000;

/** Returns a function that checks whether the cluster currently serves the group. If the check fails, the function returns true. */
function createKindCheck(
  client: Pick<KubeClient, "requestRaw">,
  log: Logger,
  { group, version }: Pick<ResourceType<KubeObject>, "group" | "version">,
): () => Promise<boolean> {
  const path = `/apis/${group}/${version}`;
  return async () => {
    try {
      await client.requestRaw({ method: "GET", path, timeoutMs: DISCOVERY_TIMEOUT_MS });
      return true;
    } catch (error) {
      if (isAppError(error, "KUBE_NOT_FOUND")) return false;
      log.warn("cannot discover the kinds of a group", { path, reason: messageOf(error) });
      return true;
    }
  };
}

async function createCallers(context: DaemonContext, flags: Flags): Promise<Callers> {
  const files = createFiles();
  const { requestheaderClientCaFile: proxyCaFile, webhookClientCaFile: webhookCaFile } = flags;
  const trust =
    proxyCaFile === undefined
      ? await followFrontProxy(context)
      : trustInFile(files, { caFile: proxyCaFile, names: flags.requestheaderAllowedNames });
  const frontProxy = new ClientAuthority(trust);
  if (webhookCaFile === undefined) return { frontProxy };
  const names = flags.webhookAllowedNames;
  return {
    frontProxy,
    webhooks: new ClientAuthority(trustInFile(files, { caFile: webhookCaFile, names })),
  };
}

function readIdentityFiles(flags: Flags): OwnCertificates | undefined {
  const { tlsCertFile: certFile, tlsPrivateKeyFile: keyFile } = flags;
  if (certFile === undefined || keyFile === undefined) return undefined;
  const files = createFiles();
  return {
    serving: certificateInFiles(files, { certFile, keyFile }),
    authority: () => Promise.resolve(undefined),
    handlerCredentials: createFileCredentials(files, {
      certFile: flags.virtHandlerClientCertFile ?? certFile,
      keyFile: flags.virtHandlerClientKeyFile ?? keyFile,
      caFile: flags.virtHandlerCaFile ?? "",
    }),
  };
}

function findHandlers(
  context: DaemonContext,
  { virtHandlerAddress: fixedAddress }: Flags,
): FindHandler {
  return fixedAddress === undefined
    ? findByPods(context.client.store)
    : () => Promise.resolve(fixedAddress);
}

function createDeps(
  { client, clock, log, metrics, signal: stop }: DaemonContext,
  caches: Caches,
  {
    access,
    authority,
    changeRate,
  }: {
    readonly access: HandlerAccess;
    readonly authority: ReadAuthority;
    readonly changeRate: Rate;
  },
): Deps {
  const { store } = client;
  const mutationCache = createMutationCache(caches.vms, caches.vmis);
  return {
    release: `v${VERSION}`,
    store,
    cachedReader: createCachedReader(store, mutationCache, listCachedKinds(caches)),
    mutationCache,
    log,
    randomBytes,
    mutex: new KeyedMutex(),
    mayReadNetwork: createAccessReview(store),
    findPodNode: createPodNodeLookup(store),
    relayAuthority: authority,
    sendToHandler: createSendToHandler(access),
    openHandlerStream: createOpenHandlerStream(access),
    takeScreenshot: createTakeScreenshot(access),
    screenshotRate: new RateLimiter(SCREENSHOT_RATE, { clock, stop }),
    changeRate: new RateLimiter(changeRate, { clock, stop }),
    servesDataVolumes: createKindCheck(client, log, DATA_VOLUMES),
    servesResourceClaims: createKindCheck(client, log, RESOURCE_CLAIMS),
    listMacOwners: (macs) => listMacOwners(caches, macs),
    segmentOf: (network) => findSegment(caches.nads, network),
    hasGuest: (vm) => hasGuest(caches.vmis, vm),
    listNetworkNames: (namespace) =>
      caches.nads.listBy("namespace", namespace).map(({ metadata }) => metadata.name),
    findByLauncher: (pod) => findByLauncher(caches.vmis, pod),
    countDecision: createDecisionCounter(metrics),
    networkConfig: () => networkConfigOf(caches.kubevirts.list()[0]),
    configVersion: () => configVersionOf(caches.kubevirts.list()[0]),
    evictionStrategy: () => evictionStrategyOf(caches.kubevirts.list()[0]),
  };
}

function createStreams(
  { clock, metrics, signal }: DaemonContext,
  deps: Deps,
  { frontProxy }: Callers,
): UpgradeListener {
  const active = new ActiveStreams();
  metrics.addSource(() => Promise.resolve(active.families()));
  return serveStreams({ deps, active, frontProxy, clock, signal });
}

export async function runApi(context: DaemonContext, flags: Flags): Promise<void> {
  const { log, drainSignal, signal } = context;
  const caches = createCaches(context);
  const { vms, vmis, kubevirts, nads } = caches;
  for (const cache of [vms, vmis, kubevirts, nads]) cache.start(signal);
  const [callers, identity] = await Promise.all([
    createCallers(context, flags),
    readIdentityFiles(flags) ?? manageOwnCertificates(context),
  ]);
  const isAborted = (): boolean => signal.aborted;
  if (isAborted()) return;
  const find = findHandlers(context, flags);
  const access = { find, credentials: identity.handlerCredentials };
  const changeRate = { burst: CHANGE_BURST, perSecond: flags.changesPerSecond };
  const deps = createDeps(context, caches, { access, authority: identity.authority, changeRate });
  const certificate = identity.serving;
  const { listenAddress, port } = flags;
  const clientAuthorities = Object.values(callers);
  const app = createApp(deps, callers);
  const server = await startServer(
    countRequests(app, context.metrics),
    { listenAddress, port, certificate, clientAuthorities },
    { log, drainSignal, signal, onUpgrade: createStreams(context, deps, callers) },
  );
  // Readiness does not wait for `nads`, because a cluster may lack kind NetworkAttachmentDefinition.
  await waitForCaches([vms, vmis, kubevirts], signal);
  if (!isAborted()) {
    log.info("listening", { port: server.port });
    context.ready();
  }
  await server.closed;
}
