// SPDX-License-Identifier: Apache-2.0
// A server in its own process, to be killed. Arguments: the store's file.
import { startApiServer } from "@patchbay/apiserver";
import { serverOptions } from "../harness.ts";

const { options, authority, admin } = await serverOptions({ storePath: process.argv[2] ?? "" });
const server = await startApiServer(options);
console.log(
  JSON.stringify({
    url: server.url,
    ca: authority.certPem,
    cert: admin.certPem,
    key: admin.keyPem,
  }),
);
