// SPDX-License-Identifier: Apache-2.0
import { createFakeVhostDirectories, createFakeVhostSockets } from "../fakes/vhost-sockets.ts";
import { describeVhostDirectoriesContract, describeVhostSocketsContract } from "./vhost-sockets.ts";

describeVhostSocketsContract("fake", () => {
  const sockets = createFakeVhostSockets();
  return Promise.resolve({
    sockets,
    put: (path, { kind, uid }) => {
      sockets.put(path, { kind, uid });
      return Promise.resolve();
    },
    take: (path) => {
      sockets.take(path);
    },
    findLink: (podUid, nic) => sockets.findLink(podUid, nic),
    close: () => Promise.resolve(),
  });
});

describeVhostDirectoriesContract("fake", () => {
  const directories = createFakeVhostDirectories();
  return {
    directories,
    put: (id, name) => {
      directories.put(id, name);
    },
    listFiles: (id) => directories.listFiles(id),
    close: () => undefined,
  };
});
