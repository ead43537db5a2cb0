// SPDX-License-Identifier: Apache-2.0
// Which connections and headers do requests use now? One keep-alive pool, made anew when certificates rotate.
import type { Clock } from "@patchbay/core/ports";
import type { Dispatcher } from "undici";
import Agent from "undici/lib/dispatcher/agent.js";
import ProxyAgent from "undici/lib/dispatcher/proxy-agent.js";
import type { Credentials, KubeConfig } from "./kubeconfig.ts";

/** How long read credentials are used, milliseconds. Source: client-go rest/token_source.go. */
const CREDENTIALS_TTL_MS = 60_000;
/** Most connections to the server; each watch holds one. */
const CONNECTIONS_MAX = 128;
/**
 * How long an idle connection is kept, milliseconds, where the server does not say for how long it keeps it: less than the
 * 90 s of kube-apiserver, so that a request after a minute of rest needs no handshake. Source: Kubernetes
 * apiserver/pkg/server/secure_serving.go, IdleTimeout
 */
const KEEP_ALIVE_MS = 85_000;
/**
 * Deadline of connecting and of the TLS handshake together, milliseconds. At a load of 20 on two
 * cores more than 5 s were seen. Source: client-go and net/http, TLSHandshakeTimeout of 10 s.
 */
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * A connection on which nothing comes is probed by the kernel after this, milliseconds, and given up 10 s later when
 * the other end is gone (libuv probes ten times, a second apart). Source: client-go, keep-alive of 30 s.
 */
const PROBE_AFTER_MS = 30_000;

/** What one request is sent with. */
export interface Transport {
  readonly dispatcher: Dispatcher;
  readonly headers: Readonly<Record<string, string>>;
}

function createDispatcher(config: KubeConfig, credentials: Credentials): Dispatcher {
  const { ca, cert, key } = credentials;
  const tls = {
    ca,
    cert,
    key,
    servername: config.tlsServerName,
    rejectUnauthorized: !config.skipTlsVerify,
    timeout: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelay: PROBE_AFTER_MS,
  };
  const pool = {
    connections: CONNECTIONS_MAX,
    keepAliveTimeout: KEEP_ALIVE_MS,
    allowH2: false,
    headersTimeout: 0, // each request has a deadline of its own
    bodyTimeout: 0,
  };
  return config.proxyUrl === undefined
    ? new Agent({ ...pool, connect: tls })
    : new ProxyAgent({ ...pool, uri: config.proxyUrl, requestTls: tls });
}

/** What says who asks, beside a certificate. */
export function headersFor(config: KubeConfig, credentials: Credentials): Record<string, string> {
  const { token, username, password } = credentials;
  const headers: Record<string, string> = {};
  if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
  else if (username !== undefined) {
    const pair = Buffer.from(`${username}:${password ?? ""}`).toString("base64");
    headers["authorization"] = `Basic ${pair}`;
  }
  if (config.impersonate !== undefined) headers["impersonate-user"] = config.impersonate;
  return headers;
}

/** The connections to one server. */
export class Pool {
  readonly #config: KubeConfig;
  readonly #clock: Clock;
  #readAtMs = 0;
  #fingerprint = "";
  #transport: Promise<Transport> | undefined;
  /** The last one that could be made; it serves while credentials cannot be read. */
  #last: Transport | undefined;
  #isRefused = false;
  #dispatcher: Dispatcher | undefined;

  constructor(config: KubeConfig, clock: Clock) {
    this.#config = config;
    this.#clock = clock;
  }

  /** Transport with credentials of the last minute. */
  transport(): Promise<Transport> {
    const nowMs = this.#clock.monotonicMs();
    const isFresh = nowMs - this.#readAtMs < CREDENTIALS_TTL_MS;
    if (this.#transport !== undefined && isFresh) return this.#transport;
    this.#readAtMs = nowMs;
    const transport = this.#readOrKeep();
    this.#transport = transport;
    transport.catch(() => {
      if (this.#transport === transport) this.#transport = undefined;
    });
    return transport;
  }

  /** Says that the server refused the credentials: the next request reads them anew. */
  expire(): void {
    this.#transport = undefined;
    this.#isRefused = true;
  }

  /** Ends the connections with what runs on them. */
  async destroy(): Promise<void> {
    await this.#dispatcher?.destroy();
  }

  /** A file that is missing for a moment, while it is being replaced, stops nothing. */
  async #readOrKeep(): Promise<Transport> {
    try {
      this.#last = await this.#read();
    } catch (error) {
      if (this.#last === undefined) throw error;
    }
    return this.#last;
  }

  async #read(): Promise<Transport> {
    const isRefused = this.#isRefused;
    this.#isRefused = false;
    const credentials = await this.#config.readCredentials(isRefused);
    const { ca, cert, key } = credentials;
    const fingerprint = JSON.stringify([ca, cert, key]);
    if (this.#dispatcher === undefined || fingerprint !== this.#fingerprint) {
      void this.#dispatcher?.close(); // what runs on it ends in peace
      this.#dispatcher = createDispatcher(this.#config, credentials);
      this.#fingerprint = fingerprint;
    }
    return { dispatcher: this.#dispatcher, headers: headersFor(this.#config, credentials) };
  }
}
