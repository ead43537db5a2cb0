// SPDX-License-Identifier: Apache-2.0
// virt-api over TLS for tests, with an API server's front proxy in front of it.
import { randomUUID } from "node:crypto";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock, createFiles } from "@patchbay/os";
import { createAuthority, issueCertificate, type IssuedCertificate } from "@patchbay/pki";
import type { Store } from "@patchbay/ports";
import { createSilentLogger } from "@patchbay/telemetry";
import { createApp } from "../app.ts";
import { startServer } from "../server.ts";

/** Who calls: the API server, somebody with a certificate of another authority, somebody without one. */
export type Caller = "apiserver" | "stranger" | "nobody";

/** An answer; `body` is parsed when it is JSON. */
export interface Answer {
  readonly code: number;
  readonly body: unknown;
}

/** A running virt-api. */
export interface Bench {
  send(
    method: string,
    path: string,
    options?: { readonly text?: string; readonly as?: Caller },
  ): Promise<Answer>;
  stop(): Promise<void>;
}

const DAYS = 1;
/** Mode of a directory with keys. */
const PRIVATE = 0o700;

async function issue(commonName: string): Promise<{ caPem: string; issued: IssuedCertificate }> {
  const authority = await createAuthority(`${commonName}-ca`, createClock());
  const issued = await issueCertificate(authority, {
    commonName,
    organizations: [],
    usages: ["server", "client"],
    dnsNames: ["localhost"],
    ipAddresses: ["127.0.0.1"],
    validDays: DAYS,
  });
  return { caPem: authority.certPem, issued };
}

interface Exchange {
  readonly port: number;
  readonly method: string;
  readonly path: string;
  readonly text: string | undefined;
  readonly client: IssuedCertificate | undefined;
}

function exchange({ port, method, path, text, client }: Exchange): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const request = httpsRequest(
    {
      host: "127.0.0.1",
      port,
      path,
      method,
      rejectUnauthorized: false,
      headers: { "x-remote-user": "alice", "x-remote-group": ["people", "shared"] },
      agent: false,
      ...(client === undefined ? {} : { cert: client.certPem, key: client.keyPem }),
    },
    (response) => {
      let said = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (said += chunk));
      response.on("end", () => {
        const body: unknown = said.startsWith("{") ? JSON.parse(said) : said;
        resolve({ code: response.statusCode ?? 0, body });
      });
    },
  );
  request.on("error", reject).end(text);
  return promise;
}

async function writeCertificates(server: IssuedCertificate, proxyCaPem: string) {
  const directory = join(tmpdir(), `virt-api-${randomUUID()}`);
  await createFiles().ensureDirectory(directory, PRIVATE);
  const files = {
    certFile: join(directory, "cert.pem"),
    keyFile: join(directory, "key.pem"),
    requestHeaderCaFile: join(directory, "front-proxy-ca.pem"),
  };
  await createFiles().writeAtomic(files.certFile, server.certPem);
  await createFiles().writeAtomic(files.keyFile, server.keyPem);
  await createFiles().writeAtomic(files.requestHeaderCaFile, proxyCaPem);
  return { directory, files };
}

/** Starts virt-api on a free port; `findStore` is asked at each use, so that a test can have its own. */
export async function startBench(findStore: () => Store): Promise<Bench> {
  const [server, proxy, stranger] = await Promise.all(
    ["virt-api", "front-proxy-client", "stranger"].map(issue),
  );
  if (server === undefined || proxy === undefined) throw new Error("no certificates");
  const { directory, files } = await writeCertificates(server.issued, proxy.caPem);
  const log = createSilentLogger();
  const stop = new AbortController();
  const app = createApp({
    get store() {
      return findStore();
    },
    log,
    randomBytes: (size) => new Uint8Array(size).fill(1),
    // Whoever is in the group of a namespace may read its networks.
    mayReadNetwork: ({ groups }, { namespace }) => Promise.resolve(groups.includes(namespace)),
    listMacOwners: () => [],
  });
  const { port, closed } = await startServer(
    app,
    { listenAddress: "127.0.0.1", port: 0, ...files },
    { files: createFiles(), log, signal: stop.signal },
  );
  const clients: Readonly<Record<Caller, IssuedCertificate | undefined>> = {
    apiserver: proxy.issued,
    stranger: stranger?.issued,
    nobody: undefined,
  };
  return {
    send: (method, path, { text, as = "apiserver" } = {}) =>
      exchange({ port, method, path, text, client: clients[as] }),
    stop: async () => {
      stop.abort();
      await closed;
      await createFiles().remove(directory);
    },
  };
}
