// SPDX-License-Identifier: Apache-2.0
// The API server as a whole: opens the store, listens, stops.
import { X509Certificate, randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { type Server, createServer } from "node:https";
import { type Server as NetServer, type Socket, createServer as createNetServer } from "node:net";
import { AppError, messageOf } from "@patchbay/core/errors";
import { KeyedMutex } from "@patchbay/core/keyed-mutex";
import type { Clock, Logger } from "@patchbay/core/ports";
import { withBuiltInAdmission } from "./admission/built-in-admission.ts";
import { makeWebhookAdmission } from "./admission/webhook/webhook-admission.ts";
import { findByPath } from "./aggregation/api-services.ts";
import { keepAuthenticationConfig } from "./aggregation/front-proxy.ts";
import { startAvailability } from "./aggregation/availability.ts";
import { startLocalApiServices } from "./aggregation/local-api-services.ts";
import { makeAggregator } from "./aggregation/proxy.ts";
import { RemoteDiscovery } from "./aggregation/remote-discovery.ts";
import { Connections } from "./backend/connections.ts";
import { serveUpgrades } from "./backend/tunnel.ts";
import {
  keepNamespaceContents,
  makeStandardNamespaces,
  startNamespaceContents,
} from "./controllers/namespace-contents.ts";
import {
  aggregateClusterRoles,
  startClusterRoleAggregation,
} from "./controllers/cluster-role-aggregation.ts";
import { keepDefaultRoles } from "./controllers/default-roles.ts";
import { startTokenSecrets } from "./controllers/token-secrets.ts";
import {
  startDefinitionCleanup,
  startDefinitionNames,
} from "./controllers/custom-resource-definitions.ts";
import { startDisruptionBudgets } from "./controllers/disruption-budgets.ts";
import { startNodeLifecycle } from "./controllers/node-lifecycle.ts";
import { startGarbageCollector } from "./controllers/garbage-collector.ts";
import { startNamespaceLifecycle } from "./controllers/namespace-lifecycle.ts";
import { startStorageProtection } from "./controllers/storage-protection.ts";
import { type AppDeps, makeApp } from "./http/app.ts";
import { isPodStream } from "./kubelet/connect.ts";
import { makeAccess } from "./auth/access.ts";
import type { TokenEntry } from "./auth/authentication.ts";
import { Registry } from "./kinds/registry.ts";
import { LIMITS, type Limits, Shares } from "./limits/limits.ts";
import { FairQueue } from "./limits/fair-queue.ts";
import { openStore } from "./storage/sqlite-store.ts";
import type { Store } from "./storage/store.ts";
import { recordManagers, strictAdmission } from "./strict/strict-admission.ts";
import { KIND_MANNERS, strictManners } from "./strict/watch-manners.ts";

/** A certificate and its key, PEM. The key is a secret. */
export interface KeyPair {
  readonly certPem: string;
  readonly keyPem: string;
}

/** How the server is to run. */
export interface ApiServerOptions {
  /** File of the store, whose directory must be there; `:memory:` keeps nothing. */
  readonly storePath: string;
  readonly host: string;
  /** Another address to listen on, at the same port; absent: none. */
  readonly secondHost?: string;
  /** 0: any free port. */
  readonly port: number;
  readonly tls: KeyPair;
  /** Authority of client certificates (CN is the user, O are the groups) and of `tls`. */
  readonly clientCaPem: string;
  /** What this server shows to aggregated servers. */
  readonly frontProxy: KeyPair;
  /** Authority of `frontProxy`, PEM: aggregated servers are told to believe it. */
  readonly frontProxyCaPem: string;
  /** What this server shows to webhooks; absent: nothing. */
  readonly webhookClient?: KeyPair;
  /** What this server shows to kubelets, whose certificates are of the authority of its clients; absent: nothing. */
  readonly kubeletClient?: KeyPair;
  readonly tokens: readonly TokenEntry[];
  /** Signs tokens of service accounts: P-256, PKCS #8 PEM; absent: a new key, so that they end with this server. Secret. */
  readonly tokenKeyPem?: string;
  readonly logger: Logger;
  readonly clock: Clock;
  /** The metrics of services in the text format of Prometheus, for `/metrics`. Unset: the path is unknown. */
  readonly readMetrics?: () => Promise<string>;
  /** Network of which Services have their addresses, in CIDR form; absent: 10.96.0.0/16. */
  readonly serviceNetwork?: string;
  /**
   * For tests: behaves as a cluster's server does where this one is kinder. Objects are filled in with nulls, defaults
   * and field managers, volumes that are images are unknown, `blockOwnerDeletion` needs a right on the owner, quiet
   * watches get no bookmarks, watches end after seconds, and the first of each that goes on from before the start is too
   * old. Absent: not.
   */
  readonly strict?: boolean;
  /** For tests: objects record who manages their fields, as a cluster's do, and are as large. Absent: only if `strict`. */
  readonly fieldManagers?: boolean;
  /** Other bounds than {@link LIMITS}. */
  readonly limits?: Partial<Limits>;
}

/** A running server. */
export interface RunningApiServer {
  /** For example `https://127.0.0.1:6443`. */
  readonly url: string;
  readonly port: number;
  /** Ends open watches, writes what is queued, closes the store. */
  close(): Promise<void>;
}

/**
 * Long selectors are part of the request line; the longest of ours has some hundred letters. Kubernetes takes 1 MiB. What is in here
 * is read before anybody's turn.
 */
const HEADERS_MAX_BYTES = 32 * 1024;

const SERVICE_NETWORK = "10.96.0.0/16";

/** How often connections are looked at that are late, milliseconds. */
const CHECKING_MS = 2000;

/** Characters of generated names. Source: Kubernetes util/rand. */
const SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH = 5;

function randomSuffix(): string {
  return [...randomBytes(SUFFIX_LENGTH)]
    .map((byte) => SUFFIX_ALPHABET[byte % SUFFIX_ALPHABET.length])
    .join("");
}

/** What the controllers need beside what requests need. */
type ServerDeps = AppDeps & { readonly connections: Connections; readonly rootCaPem: string };

/** From 0, and below 1. */
function randomPart(): number {
  return randomBytes(4).readUInt32BE() / 2 ** 32;
}

function makeDeps(options: ApiServerOptions, store: Store, stop: AbortSignal): ServerDeps {
  const registry = new Registry(store);
  const limits = { ...LIMITS, ...options.limits };
  const webhooks = new Connections(options.webhookClient);
  const aggregated = new Connections(options.frontProxy);
  const kubelets = new Connections(options.kubeletClient);
  stop.addEventListener("abort", () => {
    for (const connections of [webhooks, aggregated, kubelets]) {
      connections.close();
    }
  });
  const access = makeAccess(options, store);
  const admission = makeWebhookAdmission({
    store,
    registry,
    connections: webhooks,
    uid: randomUUID,
    logger: options.logger,
  });
  const builtIn = withBuiltInAdmission(
    { store, clock: options.clock, random: { suffix: randomSuffix }, ...access },
    admission,
  );
  const startRevision = store.revision();
  const isStrict = options.strict === true;
  const plain = options.fieldManagers === true ? recordManagers(builtIn) : builtIn;
  return {
    ...access,
    store,
    registry,
    admission: isStrict ? strictAdmission(builtIn, { ...access, registry }) : plain,
    watchManners: isStrict ? strictManners(startRevision, randomPart) : KIND_MANNERS,
    clock: options.clock,
    logger: options.logger,
    mutex: new KeyedMutex(),
    fairQueue: new FairQueue(),
    shares: new Shares(limits),
    limits,
    serviceNetwork: options.serviceNetwork ?? SERVICE_NETWORK,
    ...(options.readMetrics !== undefined && { readMetrics: options.readMetrics }),
    random: { uid: randomUUID, suffix: randomSuffix, part: randomPart },
    stop,
    remote: new RemoteDiscovery(store),
    aggregator: makeAggregator({ store, connections: aggregated, stop }),
    kubelets: { connections: kubelets, caPem: options.clientCaPem },
    connections: aggregated,
    rootCaPem: options.clientCaPem,
  };
}

function startControllers(deps: ServerDeps, stop: AbortSignal): void {
  startGarbageCollector(deps, stop);
  startNamespaceLifecycle(deps, stop);
  startStorageProtection(deps, stop);
  startDefinitionCleanup(deps, stop);
  startDefinitionNames(deps, stop);
  startClusterRoleAggregation(deps, stop);
  startNamespaceContents(deps, stop);
  startTokenSecrets(deps, stop);
  startAvailability(deps, stop);
  startNodeLifecycle(deps, stop);
  startDisruptionBudgets(deps, stop);
}

/** CN of a certificate. */
function commonNameOf(certPem: string): string {
  return /^CN=(.*)$/m.exec(new X509Certificate(certPem).subject)?.[1] ?? "";
}

function tlsServer(options: ApiServerOptions, deps: AppDeps): Server {
  const app = makeApp(deps);
  const { limits, shares } = deps;
  const server = createServer(
    {
      cert: options.tls.certPem,
      key: options.tls.keyPem,
      ca: options.clientCaPem,
      requestCert: true,
      rejectUnauthorized: false,
      keepAliveTimeout: 120_000,
      // Of what a client sends; answers, such as watches, may go on.
      handshakeTimeout: limits.headersMs,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      connectionsCheckingInterval: Math.min(limits.headersMs, CHECKING_MS),
      maxHeaderSize: HEADERS_MAX_BYTES,
      shouldUpgradeCallback: ({ url = "" }) =>
        isPodStream(url) || findByPath(deps.store, url) !== undefined,
    },
    app,
  );
  server.on("connection", (socket: Socket) => {
    shares.addStranger(socket);
  });
  serveUpgrades(server, app);
  return server;
}

function makeServer(options: ApiServerOptions, deps: AppDeps): Server {
  try {
    return tlsServer(options, deps);
  } catch (error) {
    throw new AppError("APISERVER_TLS_INVALID", { reason: messageOf(error) }, { cause: error });
  }
}

/** What is there before anyone creates it. */
async function prepare(
  options: ApiServerOptions,
  deps: ServerDeps,
  stop: AbortSignal,
): Promise<void> {
  await makeStandardNamespaces(deps);
  await keepDefaultRoles(deps);
  await aggregateClusterRoles(deps);
  await keepNamespaceContents(deps);
  await keepAuthenticationConfig(deps, {
    clientCaPem: options.clientCaPem,
    frontProxyCaPem: options.frontProxyCaPem,
    frontProxyName: commonNameOf(options.frontProxy.certPem),
  });
  await startLocalApiServices(deps, stop);
}

/** Where clients can connect, and how to let no more in. */
interface Listening {
  readonly port: number;
  readonly close: () => void;
}

async function listenAt(server: NetServer, host: string, port: number): Promise<number> {
  try {
    server.listen(port, host);
    await once(server, "listening");
  } catch (error) {
    throw new AppError(
      "APISERVER_LISTEN_FAILED",
      { host, port, reason: messageOf(error) },
      { cause: error },
    );
  }
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : port;
}

/** Listens at one address or two; whoever connects to the second is served like all others. */
async function listen(server: Server, options: ApiServerOptions): Promise<Listening> {
  const port = await listenAt(server, options.host, options.port);
  if (options.secondHost === undefined) return { port, close: () => undefined };
  const second = createNetServer((socket) => server.emit("connection", socket));
  try {
    await listenAt(second, options.secondHost, port);
  } catch (error) {
    server.close();
    throw error;
  }
  return { port, close: () => second.close() };
}

async function closeServer(server: Server): Promise<void> {
  // The ends of watches are written in this turn and the next one; who has been told the end counts as idle.
  for (let turn = 0; turn < 2; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections();
  server.closeAllConnections();
  await closed;
}

/**
 * Starts the server; it is ready when this resolves. A store that was left by a killed server opens as it was at the last acknowledgement.
 * @throws AppError with STORE_UNUSABLE, APISERVER_LISTEN_FAILED or APISERVER_TLS_INVALID.
 */
export async function startApiServer(options: ApiServerOptions): Promise<RunningApiServer> {
  const store = openStore(options.storePath, (error) => {
    options.logger.error("a listener of the store failed", { err: messageOf(error) });
  });
  const stopping = new AbortController();
  try {
    const deps = makeDeps(options, store, stopping.signal);
    await prepare(options, deps, stopping.signal);
    startControllers(deps, stopping.signal);
    const server = makeServer(options, deps);
    const { port, close } = await listen(server, options);
    return {
      url: `https://${options.host}:${String(port)}`,
      port,
      close: async () => {
        stopping.abort();
        close();
        await closeServer(server);
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}
