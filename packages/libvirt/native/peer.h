// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a connection, and how a thread that waits for it is set free.
#pragma once
#include <sys/types.h>

// The process that listens on the socket whose inode is open (O_PATH); 0 when it is in no pid namespace of ours, and
// minus errno when there is no connection. Never waits: a daemon that does not accept is EAGAIN.
pid_t listenerOf(int socketFd);

// Shuts down every unix connection of this process to that process: who waits for an answer gets an end of file.
// Any thread. Nothing for 0.
void disconnectFrom(pid_t listener);
