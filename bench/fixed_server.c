// SPDX-License-Identifier: MIT
/* A server for load_client.py: answers every HTTP request on 127.0.0.1 with the
 * same bytes, in one thread with one epoll instance. It prints its port, and
 * ends at the end of its standard input. load_client.py compiles it; it is not
 * a part of the library.
 *
 * The bytes of one read() count as one request: both clients send a request in
 * one piece and wait for the answer. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char answer[] = "HTTP/1.1 200 OK\r\n"
                             "Content-Type: text/plain\r\n"
                             "Content-Length: 13\r\n"
                             "\r\n"
                             "Hello, World!";

static void watch(int epoll_fd, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void serve(int fd) {
    char request[4096];
    if (read(fd, request, sizeof request) <= 0 ||
        send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL) < 0) {
        close(fd);
    }
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int epoll_fd = epoll_create1(0);
    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 1024) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
        perror("fixed_server");
        return 1;
    }
    watch(epoll_fd, listener);
    watch(epoll_fd, STDIN_FILENO);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        struct epoll_event events[128];
        int ready = epoll_wait(epoll_fd, events, 128, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == STDIN_FILENO) {
                return 0;
            }
            if (fd == listener) {
                fd = accept(listener, NULL, NULL);
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                watch(epoll_fd, fd);
            } else {
                serve(fd);
            }
        }
    }
}
