// SPDX-License-Identifier: Apache-2.0
// A registry on the loopback address that serves the images of one OCI layout under any name.
import { createServer, type ServerResponse } from "node:http";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { AddressInfo } from "node:net";

export interface Registry {
  /** `127.0.0.1:PORT`; containerd speaks plain HTTP to loopback addresses. */
  readonly host: string;
  close(): Promise<void>;
}

const PATH = /^\/v2\/.+\/(manifests|blobs)\/(.+)$/;
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

/** The requested blob; a tag refers to the layout's first manifest. */
async function findBlob(layout: string, url: string) {
  const [, kind = "", requested = ""] = PATH.exec(url) ?? [];
  const index = JSON.parse(await readFile(join(layout, "index.json"), "utf8")) as {
    readonly manifests: readonly [{ readonly digest: string }];
  };
  const digest = requested.startsWith("sha256:") ? requested : index.manifests[0].digest;
  const blob = await readFile(join(layout, "blobs", digest.replace(":", "/")));
  return { kind, digest, blob };
}

async function answer(layout: string, url: string, response: ServerResponse): Promise<void> {
  try {
    const { kind, digest, blob } = await findBlob(layout, url);
    response.setHeader("content-type", kind === "blobs" ? "application/octet-stream" : MANIFEST);
    response.setHeader("docker-content-digest", digest);
    response.end(blob); // Node.js omits the body of a HEAD response
  } catch {
    response.statusCode = 404;
    response.end();
  }
}

/** The required login. */
export interface Login {
  readonly username: string;
  readonly password: string;
}

/** Serves the layout until it is closed; with a login, only authenticated clients. */
export async function startRegistry(layout: string, login?: Login): Promise<Registry> {
  const basic = login && Buffer.from(`${login.username}:${login.password}`).toString("base64");
  const server = createServer((request, response) => {
    if (basic !== undefined && request.headers.authorization !== `Basic ${basic}`) {
      response.writeHead(401, { "www-authenticate": 'Basic realm="registry"' }).end();
      return;
    }
    void answer(layout, request.url ?? "", response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    host: `127.0.0.1:${String(port)}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
